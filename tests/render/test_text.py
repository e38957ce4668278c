"""The report for people, compared with what was read and found good."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Optional

import pytest

from npudoctor.core import messages
from npudoctor.core.model import UNANSWERED, Finding, Fix, Result, Risk, Severity, Status
from npudoctor.fixing.steps.steps import Command, Export
from npudoctor.render.columns import WIDTH, set_room, width
from npudoctor.render.style import PLAIN, Style
from npudoctor.render.text import report_text

from .samples import ROWS, healed_by, report

SUBJECTS = {
    "cache-server": "Looks for the sockets of cache servers in all places that any version has used, tests "
    "whether a process listens on each socket"
}
GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize(
    ("name", "verbose", "style"),
    [
        ("report.txt", 0, PLAIN),
        ("verbose.txt", 1, PLAIN),
        ("everything.txt", 2, PLAIN),
        ("colour.txt", 0, Style(True, True)),
    ],
)
def test_it_reads_as_it_did(name: str, verbose: int, style: Style) -> None:
    text = report_text(report(), verbose=verbose, style=style, subjects=SUBJECTS)
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_fits_into_80_columns_but_for_what_is_typed(language: str) -> None:
    messages.activate(language)
    try:
        lines = report_text(report(), verbose=1).splitlines()
    finally:
        messages.activate("en")
    assert all(width(line) <= 80 for line in lines if not line.startswith("        "))


def test_what_is_only_worth_knowing_is_named_and_shown_to_who_asked_for_it() -> None:
    note = Finding("a.note", "worth a word", severity=Severity.INFO)
    rows = [Result(name, "A", "g", Status.SKIPPED, needed=False, reason="no", findings=findings)
            for name, findings in (("a", (note,)), ("b", ()))]  # fmt: skip
    text = report_text(report(*rows))
    assert "\ninfo: a.note (-v shows more)\n" in text and "worth a word" not in text
    assert "\n2 checks do not apply here (-vv shows why)\n" in text
    assert "\ninfo a.note: worth a word\n" in report_text(report(*rows), notes=True)


def test_nothing_is_dropped() -> None:
    """Of each finding that counts the code is there, of each row that has no answer the name."""
    text = report_text(report())
    for row in ROWS:
        for finding in row.findings:
            assert finding.code in text
        if row.status in UNANSWERED:
            assert row.check in text


def test_of_many_alike_the_first_are_shown_and_all_are_counted() -> None:
    findings = tuple(Finding("npu-busy.held", f"NPU {n} is held", Severity.ERROR) for n in range(8))
    row = Result("npu-busy", "Free", "device", Status.PROBLEM, findings=findings)
    text = report_text(report(row))
    assert text.count("error npu-busy.held: NPU ") == 3
    assert "\nerror and 5 more npu-busy.held (-v shows them)\n" in text
    assert text.splitlines()[-1] == "NOT READY: 8 errors"
    assert report_text(report(row), verbose=1).count("is held") == 8


def test_errors_come_first() -> None:
    lines = report_text(report()).splitlines()
    signs = [line.split()[0] for line in lines if line.startswith(("error ", "warning "))]
    assert signs == sorted(signs) and set(signs) == {"error", "warning"}


def test_a_remedy_of_many_lines_says_how_many_are_left() -> None:
    fix = Fix("do it", tuple(Command((f"step{n}",)) for n in range(9)))
    row = Result("x", "X", "g", Status.PROBLEM, findings=(Finding("x.y", "m", Severity.ERROR, fix=fix),))
    text = report_text(report(row))
    assert "step2\n      # and 6 more lines (-v shows them)\n" in text
    assert report_text(report(row), verbose=1).count("step") == 9


def test_quiet_is_the_one_line() -> None:
    assert report_text(report(), quiet=True) == "not ready: 1 problem (cache-server.orphan-segment)\n"


def test_a_command_is_never_broken() -> None:
    argv = ("/opt/tool", *(f"--long-option-{number}=value with blanks" for number in range(20)))
    text = report_text(report(healed_by(*argv)))
    assert "\n      /opt/tool '--long-option-0=value with blanks' '--long" in text


def last_line(*rows: Result, fail_on: Severity = Severity.ERROR) -> str:
    return report_text(report(*rows, fail_on=fail_on)).splitlines()[-1]


def test_the_last_line_says_what_to_do_next() -> None:
    ok = Result("a", "A", "g", Status.OK)
    unknown = Result("b", "B", "g", Status.UNKNOWN, reason="no way")
    skipped = Result("c", "C", "g", Status.SKIPPED, needed=False, reason="no")
    assert last_line(ok) == "READY; next: npudoctor run COMMAND"
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
    assert last_line(ROWS[2]).startswith("READY: 1 warning; next, in the job's shell: eval ")
    assert last_line(ROWS[2], fail_on=Severity.WARNING).startswith("NOT READY: 1 warning")


@pytest.mark.parametrize("install", [None, "/usr/local/Ascend/cann"])
def test_env_is_advised_where_there_is_a_cann(install: Optional[str]) -> None:
    fix = Fix("set it", (Export("TASK_QUEUE_ENABLE", "1"),), risk=Risk.MANUAL, needs_root=False)
    finding = Finding("training-env.bad-value", "it is 7", Severity.ERROR, fix=fix)
    row = Result("training-env", "T", "python", Status.PROBLEM, findings=(finding,))
    cann = Result("cann-install", "C", "cann", Status.SKIPPED, needed=False, facts={"active": install})
    assert ("npudoctor env" in last_line(row, cann)) is (install is not None)
    assert "npudoctor env" not in last_line(row), "nothing says that CANN is here"


def test_an_echo_stands_under_its_cause_only() -> None:
    text = report_text(report())
    assert "held by what was left behind" not in text
    assert "\n    this also causes hccl-ports.dead\n" in text
    assert "      also causes hccl-ports.dead: held by what was left behind" in report_text(
        report(), verbose=1
    )


def test_a_remedy_without_lines_announces_none() -> None:
    fix = Fix("make a virtual environment", (), risk=Risk.MANUAL, needs_root=False)
    finding = Finding("numpy-version.unsuitable", "NumPy 2", Severity.ERROR, fix=fix)
    row = Result("numpy-version", "NumPy suits", "python", Status.PROBLEM, findings=(finding,))
    text = report_text(report(row))
    assert "make a virtual environment\n" in text


def test_what_a_container_lacks_can_be_copied_as_one_line() -> None:
    words = tuple(f"--device=/dev/davinci{number}" for number in range(8))
    fix = Fix("ask whoever", risk=Risk.MANUAL, needs_root=False, container=words)
    finding = Finding("accelerator.missing", "none", Severity.ERROR, fix=fix)
    row = Result("accelerator", "A", "host", Status.PROBLEM, findings=(finding,))
    lines = report_text(report(row)).splitlines()
    at = lines.index("    ask whoever starts the container to add:")
    assert lines[at + 1] == f"      {' '.join(words)}"


def test_a_machine_without_accelerators_is_told_what_lets_it_be_judged() -> None:
    row = Result("accelerator", "A", "host", Status.UNKNOWN, reason="none was found")
    ok = Result("b", "B", "g", Status.OK)
    lines = report_text(report(ok, row)).splitlines()
    assert lines[-2] == "UNDETERMINED: no result from accelerator"
    assert lines[-1] == "  if it needs no accelerator: npudoctor check --expect none"


@pytest.mark.parametrize("fail_on", [Severity.ERROR, Severity.WARNING])
def test_warnings_alone_are_not_red(fail_on: Severity) -> None:
    text = report_text(report(ROWS[2], fail_on=fail_on), style=Style(True, True))
    assert "\x1b[31m" not in text and "\x1b[1;31m" not in text
    assert "\x1b[33m!\x1b[0m" in text
    assert "\x1b[1;31mNOT READY" in report_text(report(*ROWS[:2]), style=Style(True, True))


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_uses_the_width_of_the_terminal(language: str, columns: int) -> None:
    messages.activate(language)
    set_room(columns)
    try:
        lines = report_text(report()).splitlines()
    finally:
        messages.activate("en")
        set_room(WIDTH)
    typed = ("      ", "    npudoctor", "  npudoctor")
    widths = [width(line) for line in lines if not line.startswith(typed)]
    assert max(widths) <= columns and max(widths) > columns - 20


def test_what_could_not_be_judged_says_how_it_can_be() -> None:
    late = Result("driver", "D", "g", Status.TIMEOUT, reason="no answer within 10 s")
    closed = Result("firewall", "F", "g", Status.UNKNOWN, needed=False, reason="only root sees it")
    broken = Result("mine", "M", "g", Status.BROKEN, needed=False, reason="others write it")
    text = report_text(report(late, closed, broken))
    assert "\nunknown: driver: no answer within 10 s\n" in text
    assert "\nunknown: with more time: npudoctor check driver --timeout 60 --deadline 120\n" in text
    assert "\nunknown: root may see more: npudoctor check firewall\n" in text
    assert "\nunknown: not needed for the verdict: mine (-v shows why)\n" in text
    ours = dataclasses.replace(report(closed), host=dataclasses.replace(report().host, user="root"))
    assert "root may see more" not in report_text(ours) and "firewall" in report_text(ours)


def test_a_name_with_a_line_break_makes_no_line_of_ours() -> None:
    nasty = "x\nREADY\x1b[2J"
    row = Result(nasty, nasty, nasty, Status.OK, findings=(Finding(nasty, nasty, Severity.INFO),))
    bad = Result(nasty, nasty, nasty, Status.PROBLEM, findings=(Finding(nasty, nasty, Severity.ERROR),))
    silent = Result(nasty, nasty, nasty, Status.TIMEOUT, reason=nasty)
    for style in (PLAIN, Style(True, True)):
        text = report_text(report(row, bad, silent), style=style)
        assert "\nREADY" not in text and "\x1b[2J" not in text


def test_what_an_echo_explains_is_named_at_the_cause() -> None:
    def found(code: str, cause: Optional[str] = None, severity: Severity = Severity.ERROR) -> Result:
        finding = Finding(f"{code}.x", code, severity, caused_by=cause and f"{cause}.x")
        return Result(code, code, "g", Status.PROBLEM, findings=(finding,))

    text = report_text(
        report(found("a"), found("b", "a"), found("c", "b"), found("d", "c", Severity.WARNING))
    )
    assert "\n    this also causes b.x, c.x, d.x\n" in text
    quiet = report_text(report(found("a", None, Severity.INFO), found("b", "a", Severity.INFO)))
    assert "\ninfo: a.x, b.x (-v shows more)\n" in quiet


def test_what_does_not_apply_is_counted_and_only_with_two_v_shown() -> None:
    rows = [
        Result(f"off{n}", "T", "g", Status.SKIPPED, needed=False, reason="no such thing") for n in range(60)
    ]
    on = Result("on", "On", "g", Status.OK, facts={"free": 3 << 30, "folders": ["/a", "/b"], "mounted": True})
    once, twice = (
        report_text(report(on, *rows), verbose=count, subjects={"on": "Looks"}) for count in (1, 2)
    )
    assert "\n60 checks do not apply here (-vv shows why)\n" in once and "off1" not in once
    assert "\n    Looks\n    saw: free 3 GiB; folders /a, /b; mounted yes\n" in once
    assert once.count("\n") < 13
    assert twice.count("no such thing") == 60 and "-vv" not in twice


@pytest.mark.parametrize(
    ("group", "chosen_by", "is_said"),
    [("python", "path", True), ("network", "path", False), ("network", "option", True)],
)
def test_ready_says_that_there_is_no_framework(group: str, chosen_by: str, is_said: bool) -> None:
    """With selected checks as well, where they or the caller are about a Python: no job can start in it."""
    told = report(Result("one", "one", group, Status.OK))
    empty = dataclasses.replace(
        told, target=dataclasses.replace(told.target, frameworks={}, python_from=chosen_by)
    )
    note = "no framework is installed in /opt/env/bin/python3"
    for notes in (False, True):
        line = report_text(empty, notes=notes).splitlines()[-1]
        assert (note in line) is is_said
        assert not is_said or "npudoctor run" not in line
    assert (note in report_text(empty, quiet=True)) is (chosen_by == "option")
    unknown = dataclasses.replace(told.target, frameworks=None)
    for other in (
        dataclasses.replace(empty, scope="node"),
        dataclasses.replace(empty, target=unknown),
    ):
        assert note not in report_text(other, notes=True)
