"""Every fault is found, and no other error stands beside it: each on one machine, in turn.

`make scenarios` tries each on every machine.
"""

import pytest

from npudoctor.core.model import Report
from npudoctor.registry.registry import load_all

from .alike import differences
from .fault import Fault, outcome
from .gpu import gpu_machines
from .machines import Machine, all_machines, judge
from .matrix import FAULTS

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})
MACHINES = [*all_machines(), *gpu_machines()]


def _machine(number: int, fault: Fault) -> Machine:
    fitting = [machine for machine in MACHINES if fault.where(machine)]
    return fitting[7 * number % len(fitting)]


CASES = [pytest.param(fault, _machine(number, fault), id=fault.name) for number, fault in enumerate(FAULTS)]


REPORTS: dict[str, Report] = {}


def reported(fault: Fault, machine: Machine) -> Report:
    """What is said of the one machine of a case; of test_remedies too, which is in the same process."""
    if fault.name not in REPORTS:
        REPORTS[fault.name] = judge(LOADED, fault.on(machine))
    return REPORTS[fault.name]


@pytest.mark.parametrize(("fault", "machine"), CASES)
def test_a_fault_is_found_alone(fault: Fault, machine: Machine) -> None:
    report = reported(fault, machine)
    seen = outcome(fault, report)
    assert (seen.found, seen.others, seen.broken) == (True, (), ()), f"{fault.code} on {machine.name}"
    assert differences(report) == []


def test_the_table_names_codes_that_there_are() -> None:
    codes = {code for check in LOADED.checks for code in check.codes}
    assert {fault.code for fault in FAULTS} <= codes
    names = [fault.name for fault in FAULTS]
    assert sorted(names) == sorted(set(names))
    assert len(names) >= 80
