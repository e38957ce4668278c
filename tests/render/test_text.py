"""The report for people, compared with what was read and found good."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from npudoctor.core import messages
from npudoctor.core.model import Finding, Fix, Result, Risk, Severity, Status
from npudoctor.fixing.steps.steps import Export
from npudoctor.render.columns import width
from npudoctor.render.text import report_text

from .samples import ROWS, healed_by, report

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize(
    ("name", "verbose", "colour"),
    [("report.txt", False, False), ("verbose.txt", True, False), ("colour.txt", False, True)],
)
def test_it_reads_as_it_did(name: str, verbose: bool, colour: bool) -> None:
    text = report_text(report(), verbose=verbose, colour=colour)
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_fits_into_80_columns_but_for_what_is_typed(language: str) -> None:
    messages.activate(language)
    try:
        lines = report_text(report(), verbose=True).splitlines()
    finally:
        messages.activate("en")
    assert all(width(line) <= 80 for line in lines if not line.startswith("        "))


def test_a_skipped_row_that_says_something_is_shown() -> None:
    note = Finding("a.note", "worth a word", severity=Severity.INFO)
    rows = [Result(name, "A", "g", Status.SKIPPED, needed=False, reason="no", findings=findings)
            for name, findings in (("a", (note,)), ("b", ()))]  # fmt: skip
    text = report_text(report(*rows))
    assert "    info a.note\n      worth a word\n" in text
    assert "skipped, -v says why: b\n" in text


def test_quiet_is_the_one_line() -> None:
    assert report_text(report(), quiet=True) == "not ready: 1 problem (cache-server.orphan-segment)\n"


def test_a_command_is_never_broken() -> None:
    argv = ("/opt/tool", *(f"--long-option-{number}=value with blanks" for number in range(20)))
    text = report_text(report(healed_by(*argv)))
    assert "        /opt/tool '--long-option-0=value with blanks' '--long" in text


def last_line(*rows: Result, fail_on: Severity = Severity.ERROR) -> str:
    return report_text(report(*rows, fail_on=fail_on)).splitlines()[-1]


def test_the_last_line_says_what_to_do_next() -> None:
    ok = Result("a", "A", "g", Status.OK)
    unknown = Result("b", "B", "g", Status.UNKNOWN, reason="no way")
    skipped = Result("c", "C", "g", Status.SKIPPED, needed=False, reason="no")
    assert last_line(ok) == "READY"
    assert last_line(ok, unknown) == "UNDETERMINED: no result from b"
    assert last_line(skipped) == "UNDETERMINED: none of the selected checks applies to this machine"
    assert last_line(healed_by("x")) == "NOT READY: 1 error; next, as root: npudoctor fix driver"
    assert last_line(*ROWS[:2]).endswith("next, as root: npudoctor fix --cache-server")


def test_what_no_child_can_do_is_not_promised() -> None:
    export = Fix("set it", (Export("A", "b"),), needs_root=False)
    finding = Finding("e.unset", "unset", Severity.ERROR, fix=export)
    row = Result("e", "E", "g", Status.PROBLEM, findings=(finding,))
    assert last_line(row) == "NOT READY: 1 error"
    for fix in (dataclasses.replace(healed_by("x").findings[0].fix or export, risk=Risk.MANUAL), None):
        bare = dataclasses.replace(row, findings=(dataclasses.replace(finding, fix=fix),))
        assert "npudoctor fix" not in last_line(bare)


def test_warnings_alone_are_told_and_do_not_decide() -> None:
    assert last_line(ROWS[2]) == "READY: 1 warning"
    assert last_line(ROWS[2], fail_on=Severity.WARNING).startswith("NOT READY: 1 warning")


def test_an_echo_stands_under_its_cause_only() -> None:
    text = report_text(report())
    assert text.count("held by what was left behind") == 1
    assert "      echo hccl-ports.dead: held by what was left behind" in text


def test_a_remedy_without_lines_announces_none() -> None:
    fix = Fix("make a virtual environment", (), risk=Risk.MANUAL, needs_root=False)
    finding = Finding("numpy-version.unsuitable", "NumPy 2", Severity.ERROR, fix=fix)
    row = Result("numpy-version", "NumPy suits", "python", Status.PROBLEM, findings=(finding,))
    text = report_text(report(row))
    assert "make a virtual environment\n" in text
