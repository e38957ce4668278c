"""On a healthy machine of whatever era nothing is wrong, and nothing that matters is unknown."""

from __future__ import annotations

import pytest

from npudoctor.core.model import Finding, Report, Severity, Status, Verdict
from npudoctor.registry.registry import load_all

from .alike import differences
from .gpu import gpu_machines
from .machines import Machine, all_machines, judge
from .pythons import pythons
from .variants import elsewhere, variants

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})
HEALTHY = [*all_machines(), *gpu_machines(), *variants(), *pythons()]
ELSEWHERE = elsewhere()
ADVICE = """\
Does every healthy machine have what the check reads? Then put it into the made-up machines: files() in
tests/scenarios/system.py (any machine), or cann.py, npu.py, gpu.py, python_env.py beside it.
May a healthy machine lack it? Then the check raises Skip where it does not apply,
and Unknown(..., advisory=True) where it cannot be seen from here."""

# By the identity of the machine: two tests look at each, and judging takes longer than looking.
_reports: dict[int, Report] = {}


def _report(machine: Machine) -> Report:
    """What is said of one machine of HEALTHY or ELSEWHERE."""
    if id(machine) not in _reports:
        _reports[id(machine)] = judge(LOADED, machine)
    return _reports[id(machine)]


def _alarms(report: Report) -> list[Finding]:
    return [finding for row in report.results for finding in row.findings if finding.weight > Severity.INFO]


def _unknown(report: Report) -> dict[str, str]:
    """The needed checks that could not tell, each with its reason."""
    return {
        row.check: row.reason or "" for row in report.results if row.needed and row.status is Status.UNKNOWN
    }


@pytest.mark.parametrize("machine", HEALTHY, ids=lambda machine: machine.name)
def test_a_healthy_machine_is_ready(machine: Machine) -> None:
    """That nothing is unknown is one test for all machines, below: only then does the verdict follow."""
    report = _report(machine)
    assert [finding.message for finding in _alarms(report)] == []
    assert [
        row.check for row in report.results if row.status in (Status.CRASHED, Status.TIMEOUT, Status.BROKEN)
    ] == []
    assert report.verdict is (Verdict.UNDETERMINED if _unknown(report) else Verdict.READY)
    assert differences(report) == []


@pytest.mark.parametrize("machine", ELSEWHERE, ids=lambda machine: machine.name)
def test_a_machine_for_other_things_is_let_alone(machine: Machine) -> None:
    report = _report(machine)
    assert [finding.code for finding in _alarms(report)] == []
    not_ok = [row.check for row in report.results if row.needed and row.status is not Status.OK]
    unknown = _unknown(report)
    assert "accelerator" in unknown
    assert [check for check in not_ok if check not in unknown] == []
    assert report.verdict is Verdict.UNDETERMINED
    assert differences(report) == []
    # What a shell's variables say of interfaces is worth a word where somebody set them.
    findings = [finding for row in report.results for finding in row.findings]
    assert len([finding for finding in findings if finding.code != "socket-interfaces.missing"]) <= 1


def test_every_check_can_tell_on_healthy_machines() -> None:
    """One test, so that a new check which reads what the made-up machines lack fails once."""
    reasons: dict[str, list[str]] = {}
    for machine in [*HEALTHY, *ELSEWHERE]:
        for check, reason in _unknown(_report(machine)).items():
            if check != "accelerator" or machine not in ELSEWHERE:
                reasons.setdefault(check, []).append(f"{machine.name}: {reason}")
    if reasons:
        lines = [
            f"{check}: unknown on {len(at)} healthy machines, first on {at[0]}"
            for check, at in reasons.items()
        ]
        pytest.fail("\n".join([*lines, ADVICE]), pytrace=False)
