"""On every machine of the scenarios: what is computed makes the environment checks content, for good."""

from __future__ import annotations

from functools import cache

import pytest
from tests.scenarios.faults import cann as cann_faults

from npudoctor.core.model import Finding, Report, Risk
from npudoctor.environment import EnvironmentChanges, required_changes, variable_checks
from npudoctor.environment.rounds import _environment_checks
from npudoctor.fixing.plan import FixRequest, refusal_of
from npudoctor.host import CannotTell
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner import runner
from npudoctor.testing import fake_host

from ..scenarios.fault import Fault  # noqa: TID252
from ..scenarios.gpu import gpu_machines  # noqa: TID252
from ..scenarios.machines import Machine, all_machines, host_of  # noqa: TID252
from ..scenarios.matrix import FAULTS  # noqa: TID252
from ..scenarios.pythons import pythons  # noqa: TID252
from ..scenarios.variants import elsewhere, variants  # noqa: TID252

MACHINES = all_machines()
LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
# Faults of the variables; what a remedy cannot answer has other causes, named here.
CHECKS = ("cann-env", "aicpu-path", "library-path", "te-topi", "nnal-atb", "log-settings", "training-env")
FILES = {
    "library-path.broken",
    "te-topi.not-readable",
    "nnal-atb.undefined-symbols",
    "nnal-atb.other-version",
}
BROKEN_FILES = (
    *("libhccl.so is gone", "a library of the driver is gone", "only lib64/driver mounted"),
    *("te is not installed", "libgomp is not installed"),
    *("driver for the other processor", "ATB is not installed", "NNAL removed", "hccl left behind"),
    "a copy of a library in an environment's folder",  # by an RPATH, before which no variable comes
)


def _wanted(machine: Machine) -> EnvironmentChanges:
    host = host_of(machine)
    try:
        return required_changes(host)
    finally:
        host.close()


def _with(machine: Machine, found: EnvironmentChanges) -> Machine:
    after = machine.copy()
    merged = {**machine.variables, **found.changes}
    after.variables = {name: value for name, value in merged.items() if value is not None}
    return after


@cache
def _checks() -> LoadedChecks:
    return _environment_checks()


def _report(machine: Machine) -> Report:
    host = host_of(machine)
    try:
        return runner.run(_checks(), host, runner.Settings())
    finally:
        host.close()


def _findings(machine: Machine) -> list[Finding]:
    """What is still wrong with the variables."""
    return variable_checks.findings_of(_report(machine))


def _is_clean(machine: Machine) -> bool:
    """No list of folders has an empty entry, or one twice."""
    lists = [machine.variables[name].split(":") for name in LISTS if name in machine.variables]
    return all(all(entries) and len(entries) == len(set(entries)) for entries in lists)


HEALTHY = [
    machine
    for machine in [*MACHINES, *gpu_machines(), *variants(), *pythons(), *elsewhere()]
    if not machine.image
]


@pytest.mark.parametrize("machine", HEALTHY, ids=lambda machine: machine.name)
def test_a_healthy_machine_keeps_its_variables(machine: Machine) -> None:
    """Only the empty entries that CANN's own script leaves are taken out."""
    found = _wanted(machine)
    assert found.changes == {
        name: ":".join(filter(None, machine.variables[name].split(":")))
        for name in LISTS
        if "" in machine.variables.get(name, "x").split(":")
    }


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_bare_shell_gets_it_all(machine: Machine) -> None:
    bare = machine.copy()
    cann_faults.unsource(bare)
    after = _with(bare, _wanted(bare))
    assert [finding.code for finding in _findings(after)] == []
    assert _is_clean(after)
    assert _wanted(after).changes == {}


def _on(number: int, fault: Fault) -> Machine:
    fitting = [machine for machine in MACHINES if fault.where(machine)]
    return fault.on(fitting[5 * number % len(fitting)])


def _of_variables(fault: Fault) -> bool:
    name, there = fault.name, any(fault.where(machine) for machine in MACHINES)
    return there and fault.code.split(".")[0] in CHECKS and not name.startswith(BROKEN_FILES)


@pytest.mark.parametrize(
    ("number", "fault"),
    [pytest.param(*pair, id=pair[1].name) for pair in enumerate(FAULTS) if _of_variables(pair[1])],
)
def test_a_fault_of_the_variables_is_answered(number: int, fault: Fault) -> None:
    machine = _on(number, fault)
    try:
        found = _wanted(machine)
    except CannotTell:
        assert not any(machine.top in path for path in machine.files)  # there is no CANN any more
        assert not variable_checks.env_would_help(_report(machine))
        return
    if not found.changes:
        assert not variable_checks.env_would_help(_report(machine)), "advised, and prints nothing"
    after = _with(machine, found)
    assert {finding.code for finding in _findings(after)} <= FILES
    assert _is_clean(after)
    assert _wanted(after).changes == {}


def test_fix_advises_env_where_it_prints_a_line() -> None:
    """Of the same finding, with CANN and without."""
    machine = MACHINES[0].copy()
    cann_faults.unsource(machine)
    finding = next(one for one in _findings(machine) if one.code.startswith("cann-env.") and one.fix)
    other = Finding("x.y", finding.message, finding.severity, fix=finding.fix)
    request = FixRequest(yes=True, risk=Risk.CAUTION)
    host, empty = host_of(machine), fake_host()
    try:
        refusals = [
            refusal_of(*pair, request) or "" for pair in ((finding, host), (finding, empty), (other, host))
        ]
    finally:
        host.close()
    assert ['eval "$(npudoctor env)"' in refusal for refusal in refusals] == [True, False, False]
    assert all("no program can change the shell" in refusal for refusal in refusals)


def test_what_stays_is_left_in_its_place() -> None:
    machine = MACHINES[0].copy()
    own = {
        "PATH": "/opt/tool/bin:/usr/bin",
        "PYTHONPATH": "/home/trainer/job",
        "LD_LIBRARY_PATH": "/opt/x/lib",
    }
    cann_faults.unsource(machine)
    machine.variables.update(own)
    after = _with(machine, _wanted(machine))
    for name, value in own.items():
        entries = [entry for entry in after.variables[name].split(":") if entry in value.split(":")]
        assert ":".join(entries) == value


def test_two_names_of_one_folder_are_one() -> None:
    machine = next(one for one in MACHINES if one.era.cann == "8.1.RC1" and one.framework == "torch").copy()
    real = f"/usr/local/Ascend/ascend-toolkit/{machine.era.cann}"
    machine.variables["PYTHONPATH"] = f"{real}/python/site-packages"
    after = _with(machine, _wanted(machine))
    entries = after.variables["PYTHONPATH"].split(":")
    assert f"{real}/python/site-packages" in entries
    assert f"{machine.top}/python/site-packages" not in entries


def test_an_entry_of_another_cann_goes_where_it_does_harm() -> None:
    (fault,) = [one for one in FAULTS if one.name == "PYTHONPATH of another release"]
    machine = fault.on(next(one for one in MACHINES if fault.where(one)))
    after = _with(machine, _wanted(machine))
    assert cann_faults.OTHER not in str(after.variables)


def test_what_every_node_must_have_alike_is_left_and_said() -> None:
    machine = MACHINES[0].copy()
    machine.variables["HCCL_CONNECT_TIMEOUT"] = "two hours"
    found = _wanted(machine)
    assert "HCCL_CONNECT_TIMEOUT" not in found.changes
    assert any(note.startswith("not changed: hccl-env.bad-value") for note in found.notes)


def test_a_name_that_no_shell_takes_is_left_alone() -> None:
    machine = MACHINES[0].copy()
    machine.variables.update({"BASH_FUNC_module%%": "() { :; }", "a.b": "1"})
    cann_faults.unsource(machine)
    assert not {"BASH_FUNC_module%%", "a.b"} & _wanted(machine).changes.keys()


def test_a_debugging_level_goes_and_is_said() -> None:
    machine = MACHINES[0].copy()
    machine.variables["ASCEND_GLOBAL_LOG_LEVEL"] = "1"
    found = _wanted(machine)
    assert found.changes["ASCEND_GLOBAL_LOG_LEVEL"] == "3"
    assert any(note.startswith("ASCEND_GLOBAL_LOG_LEVEL becomes 3") for note in found.notes)


def test_nothing_that_the_user_chose_for_cann_is_overridden() -> None:
    machine = next(one for one in MACHINES if one.framework == "vllm").copy()
    (fault,) = [one for one in FAULTS if one.name == "ATB's script was not sourced"]
    broken = fault.on(machine)
    broken.variables["ATB_STREAM_SYNC_EVERY_KERNEL_ENABLE"] = "1"
    assert "ATB_STREAM_SYNC_EVERY_KERNEL_ENABLE" not in _wanted(broken).changes
