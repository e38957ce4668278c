"""All advice alike: what cannot be seen decides nothing, and what does not apply is skipped."""

from __future__ import annotations

import pytest

from npudoctor import Check, Severity, Status
from npudoctor.checks.host.clock import clock
from npudoctor.core.model import ADVICE
from npudoctor.registry.collector import LoadedChecks
from npudoctor.registry.registry import load_all
from npudoctor.runner.runner import Settings, run
from npudoctor.testing import ask, device, fake_host, unreadable

CHECKS = [check for check in load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks if check.group == ADVICE]
CLOSED = ("/sys/devices", "/sys/kernel", "/sys/class", "/sys/bus", "/proc/sys", "/proc/swaps", "/proc/irq")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_an_image_and_a_machine_without_accelerators_need_none(check: Check) -> None:
    assert ask(check, fake_host(root="/image", expect="npu")).status is Status.SKIPPED
    assert ask(check, fake_host(expect="none")).status is Status.SKIPPED


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_where_nothing_is_there_nothing_is_said(check: Check) -> None:
    asked = ask(check, fake_host(expect="npu"))
    assert (asked.status, asked.codes) == (Status.SKIPPED, [])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_what_a_user_may_not_read_is_no_verdict(check: Check) -> None:
    """Beside a row that is well: alone, nothing was judged."""
    files = {f"/dev/davinci{number}": device() for number in range(2)}
    host = fake_host({**files, **dict.fromkeys(CLOSED, unreadable())}, euid=1000, expect="npu")
    report = run(LoadedChecks((check, clock), (), {}), host, Settings())
    row = next(row for row in report.results if row.check == check.id)
    assert row.status in (Status.UNKNOWN, Status.SKIPPED) and not row.needed
    assert report.exit_code == 0
    assert all(finding.weight is Severity.INFO for finding in row.findings)
