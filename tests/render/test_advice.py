"""The advice is one line in the report, unless somebody asked for more; it never decides."""

from __future__ import annotations

from typing import Optional

import pytest

from npudoctor.core.frozen import replace
from npudoctor.core.model import ADVICE, Finding, Ignored, Result, Severity, Status
from npudoctor.registry.registry import load_all
from npudoctor.render.text import report_text

from .samples import report

HINT = Finding("swap-space.eager", "the kernel swaps early", Severity.INFO)


def _row(status: Status, *findings: Finding, check: str = "swap-space") -> Result:
    return Result(check, "No memory is swapped out", ADVICE, status, needed=False, findings=findings)


WELL = Result("clock", "The clock is correct", "host", Status.OK)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([_row(Status.OK, HINT)], "tuning: 1 suggestion for more speed: npudoctor check tuning"),
        ([_row(Status.OK, HINT), _row(Status.UNKNOWN, HINT, check="interface-mtu")], "tuning: 2 suggestions"),
        ([_row(Status.OK), _row(Status.SKIPPED)], None),
        ([_row(Status.OK, replace(HINT, ignored=Ignored("known")))], None),
    ],
)
def test_one_line_for_all_of_it(rows: list[Result], said: Optional[str]) -> None:
    lines = report_text(report(WELL, *rows)).splitlines()
    found = [line for line in lines if "suggestion" in line]
    assert len(found) == (said is not None) and all(said is None or said in line for line in found)
    assert not any("swaps early" in line for line in lines)


def test_verbose_and_selected_show_it_whole() -> None:
    rows = [WELL, _row(Status.OK, HINT)]
    for text in (report_text(report(*rows), notes=True), report_text(report(*rows), verbose=True)):
        assert "swap-space.eager" in text and "the kernel swaps early" in text
        assert "suggestion" not in text


def test_it_is_information_and_nobody_needs_it() -> None:
    checks = [check for check in load_all({"NPUDOCTOR_CHECKS_DIR": ""}).checks if check.group == ADVICE]
    assert len(checks) == 10
    for check in checks:
        assert check.advisory and check.quick, check.id
        assert set(check.codes.values()) == {Severity.INFO}, check.id
