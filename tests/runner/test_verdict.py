"""The verdict: what is ignored, folded, counted, and what decides, in the order that was promised."""

from __future__ import annotations

from typing import Optional

import pytest

from npudoctor import Finding, Severity, Status
from npudoctor.core.model import Ignored, Result, Verdict
from npudoctor.runner.verdict import (
    count_rows,
    decide_verdict,
    fold_echoes,
    mark_ignored,
    settle_by_trials,
    verdict_line,
)


def finding(code: str, severity: Severity = Severity.ERROR, *echo_of: str) -> Finding:
    return Finding(code, code, severity, echo_of=echo_of)


def row(check: str, status: Status = Status.PROBLEM, *findings: Finding, needed: bool = True) -> Result:
    return Result(check, check, "group", status, needed=needed, findings=findings)


BAD = row("a", Status.PROBLEM, finding("a.bad"))
ODD = row("b", Status.PROBLEM, finding("b.odd", Severity.WARNING))
FINE = row("c", Status.OK)


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([FINE], Verdict.READY),
        ([ODD], Verdict.READY),
        ([BAD], Verdict.NOT_READY),
        ([FINE, row("d", Status.SKIPPED, needed=False)], Verdict.READY),
        ([row("d", Status.SKIPPED, needed=False)], Verdict.UNDETERMINED),
        ([], Verdict.UNDETERMINED),
        ([row("d", Status.UNKNOWN, needed=False)], Verdict.UNDETERMINED),
        ([FINE, row("d", Status.UNKNOWN, needed=False)], Verdict.READY),
        *(
            ([FINE, row("d", status)], Verdict.UNDETERMINED)
            for status in (Status.UNKNOWN, Status.TIMEOUT, Status.CRASHED, Status.BROKEN)
        ),
        ([BAD, row("d", Status.UNKNOWN)], Verdict.NOT_READY),
        ([row("d", Status.UNKNOWN, finding("d.bad"), needed=False)], Verdict.NOT_READY),
    ],
)
def test_the_order_of_the_verdict(rows: list[Result], verdict: Verdict) -> None:
    expected = {Verdict.READY: 0, Verdict.NOT_READY: 1, Verdict.UNDETERMINED: 2}[verdict]
    assert decide_verdict(rows, Severity.ERROR) == (verdict, expected)


def test_fail_on_warning() -> None:
    assert decide_verdict([ODD], Severity.WARNING) == (Verdict.NOT_READY, 1)
    assert decide_verdict([row("c", Status.OK, finding("c.note", Severity.INFO))], Severity.WARNING)[1] == 0


@pytest.mark.parametrize(
    ("tried", "needed"),
    [
        ([], True),
        ([row("trial-a", Status.OK), row("trial-b", Status.PROBLEM)], False),
        ([row("trial-a", Status.OK)], True),
        *(
            ([row("trial-a", Status.OK), row("trial-b", status)], True)
            for status in (Status.UNKNOWN, Status.SKIPPED, Status.TIMEOUT)
        ),
    ],
)
def test_what_was_tried_need_not_be_looked_at(tried: list[Result], needed: bool) -> None:
    """Only where every check that does the very thing has an answer."""
    rows = settle_by_trials([row("d", Status.UNKNOWN), *tried], {"d": ("trial-a", "trial-b"), "e": ()})
    assert rows[0].needed is needed and rows[1:] == tried
    assert settle_by_trials([row("d", Status.TIMEOUT), *tried], {"d": ("trial-a",)})[0].needed


@pytest.mark.parametrize("name", ["a.bad", "a"])
@pytest.mark.parametrize("reason", [None, "known"])
def test_what_is_ignored_stays_and_does_not_decide(name: str, reason: Optional[str]) -> None:
    (marked,) = mark_ignored([BAD], {name: reason})
    assert marked.findings[0].ignored == Ignored(reason)
    assert marked.findings[0].severity is Severity.ERROR and marked.status is Status.PROBLEM
    assert decide_verdict([marked, FINE], Severity.ERROR)[1] == 0
    assert count_rows([marked])["ignored"] == 1 and count_rows([marked])["errors"] == 0
    assert marked.needed == (name == "a.bad")


def test_a_codes_reason_wins_over_its_checks() -> None:
    (marked,) = mark_ignored([BAD], {"a": "check", "a.bad": "code"})
    assert marked.findings[0].ignored == Ignored("code")


def test_an_ignored_check_that_cannot_answer_is_not_needed() -> None:
    unknown = row("d", Status.UNKNOWN)
    assert decide_verdict(mark_ignored([unknown, FINE], {"d": None}), Severity.ERROR)[1] == 0
    assert decide_verdict(mark_ignored([unknown, FINE], {"d.bad": None}), Severity.ERROR)[1] == 2


def causes(*findings: Finding) -> list[Optional[str]]:
    (folded,) = fold_echoes([row("x", Status.PROBLEM, *findings)])
    return [found.caused_by for found in folded.findings]


def test_an_echo_is_folded_only_where_its_cause_is() -> None:
    echo = finding("x.echo", Severity.ERROR, "x.absent", "x.cause")
    assert causes(echo) == [None]
    assert causes(echo, finding("x.cause")) == ["x.cause", None]
    assert causes(finding("x.self", Severity.ERROR, "x.self")) == [None]


def test_a_chain_is_folded_and_a_circle_is_not() -> None:
    a, b, c = (finding("x.a"), finding("x.b", Severity.ERROR, "x.a"), finding("x.c", Severity.ERROR, "x.b"))
    assert causes(c, b, a) == ["x.b", "x.a", None]
    ring = (finding("x.b", Severity.ERROR, "x.c"), finding("x.c", Severity.ERROR, "x.b"))
    assert causes(*ring) == [None, None]
    rows = fold_echoes([row("x", Status.PROBLEM, *ring)])
    assert decide_verdict(rows, Severity.ERROR)[1] == 1


def test_folded_echoes_count_once_and_do_not_decide() -> None:
    rows = fold_echoes([
        row("w", Status.PROBLEM, finding("w.cause", Severity.WARNING)),
        row("e", Status.PROBLEM, finding("e.echo", Severity.ERROR, "w.cause")),
    ])  # fmt: skip
    assert decide_verdict(rows, Severity.ERROR)[1] == 0
    assert (count_rows(rows)["folded"], count_rows(rows)["errors"], count_rows(rows)["warnings"]) == (1, 0, 1)


def test_the_one_line() -> None:
    rows = [BAD, ODD, row("d", Status.UNKNOWN), row("e", Status.TIMEOUT)]
    assert verdict_line(Verdict.NOT_READY, rows, Severity.ERROR) == "not ready: 1 problem (a.bad)"
    assert verdict_line(Verdict.NOT_READY, rows, Severity.WARNING) == "not ready: 2 problems (a.bad, b.odd)"
    assert verdict_line(Verdict.UNDETERMINED, rows, Severity.ERROR) == "undetermined: no result from d, e"
    assert verdict_line(Verdict.UNDETERMINED, [], Severity.ERROR).startswith("undetermined: none of")
    assert verdict_line(Verdict.READY, [FINE], Severity.ERROR) == "ready"
