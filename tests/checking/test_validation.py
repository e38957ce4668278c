"""What a check answers is judged before it enters a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from npudoctor import Facts, Finding, Fix, Scope, Severity
from npudoctor.checking.check import Check
from npudoctor.checking.validation import validate

CODES = {"a.bad": Severity.ERROR, "a.odd": Severity.WARNING}
CHECK = Check("a", Scope.NODE, CODES, lambda host: iter(()), "A")
GOOD = Finding("a.odd", "message")
FIX = Fix("title")
FACTS = Facts({})


def changed(value: Any, **fields: Any) -> Any:
    """The value with fields of any type, as a drop-in that nobody type-checks may make them."""
    return replace(value, **fields)


def test_a_finding_gets_its_declared_severity_or_a_lower_one() -> None:
    def severity(finding: Finding) -> Severity:
        told = validate(CHECK, finding)
        assert isinstance(told, Finding)
        return told.weight

    assert severity(GOOD) is Severity.WARNING
    assert severity(replace(GOOD, severity=Severity.INFO)) is Severity.INFO
    with pytest.raises(ValueError, match=r"'a\.odd' is declared as WARNING, not ERROR"):
        severity(replace(GOOD, severity=Severity.ERROR))


def test_secrets_are_hidden_in_message_and_evidence() -> None:
    told = validate(CHECK, Finding("a.bad", "token=abc", evidence=("https://me:pw@host/",)))
    assert isinstance(told, Finding)
    assert (told.message, told.evidence) == ("token=***", ("https://me:***@host/",))


@pytest.mark.parametrize(
    "answer",
    [
        "a text",
        None,
        Finding("a.other", "x"),
        Finding("b.bad", "x"),
        changed(GOOD, message=5),
        changed(GOOD, evidence="text"),
        changed(GOOD, evidence=(b"bytes",)),
        changed(GOOD, device=3),
        changed(GOOD, action="config"),
        changed(GOOD, echo_of="a.bad"),
        changed(GOOD, severity=7),
        changed(GOOD, fix="rm"),
        changed(GOOD, fix=changed(FIX, undo=(5,))),
        changed(GOOD, fix=changed(FIX, risk=1)),
        changed(GOOD, fix=changed(FIX, title=None)),
        Facts({"x": float("inf")}),
        Facts({"x": {1, 2}}),
        changed(FACTS, values={("a", "b"): 1}),
        changed(FACTS, values=5),
    ],
)
def test_what_no_report_could_carry_is_refused(answer: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        validate(CHECK, answer)
