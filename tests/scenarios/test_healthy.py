"""On a healthy machine of whatever era nothing is wrong, and nothing that matters is unknown."""

import pytest

from npudoctor.model import Severity, Status, Verdict
from npudoctor.registry import load_all

from .machines import Machine, all_machines, judge, variants
from .pythons import pythons

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})


@pytest.mark.parametrize(
    "machine", [*all_machines(), *variants(), *pythons()], ids=lambda machine: machine.name
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
