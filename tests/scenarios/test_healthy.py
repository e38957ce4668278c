"""On a healthy machine of whatever era nothing is wrong, and nothing that matters is unknown."""

import pytest

from npudoctor.core.model import Severity, Status, Verdict
from npudoctor.registry.registry import load_all

from .alike import differences
from .gpu import gpu_machines
from .machines import Machine, all_machines, judge
from .pythons import pythons
from .variants import elsewhere, variants

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})


@pytest.mark.parametrize(
    "machine",
    [*all_machines(), *gpu_machines(), *variants(), *pythons()],
    ids=lambda machine: machine.name,
)
def test_a_healthy_machine_is_ready(machine: Machine) -> None:
    report = judge(LOADED, machine)
    findings = [finding for row in report.results for finding in row.findings]
    assert [finding.message for finding in findings if finding.weight > Severity.INFO] == []
    assert [
        row.check for row in report.results if row.status in (Status.CRASHED, Status.TIMEOUT, Status.BROKEN)
    ] == []
    assert [
        (row.check, row.reason) for row in report.results if row.needed and row.status is Status.UNKNOWN
    ] == []
    assert report.verdict is Verdict.READY
    assert differences(report) == []


@pytest.mark.parametrize("machine", elsewhere(), ids=lambda machine: machine.name)
def test_a_machine_for_other_things_is_let_alone(machine: Machine) -> None:
    report = judge(LOADED, machine)
    findings = [finding for row in report.results for finding in row.findings]
    assert [finding.code for finding in findings if finding.weight > Severity.INFO] == []
    unknown = [row.check for row in report.results if row.needed and row.status is not Status.OK]
    assert unknown == ["accelerator"]
    assert report.verdict is Verdict.UNDETERMINED
    assert differences(report) == []
    # What a shell's variables say of interfaces is worth a word where somebody set them.
    assert len([finding for finding in findings if finding.code != "socket-interfaces.missing"]) <= 1
