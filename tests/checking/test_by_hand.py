"""An error of ours always says what to do: lines that the check knows, or a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import Finding, Fix, Host, Scope, Severity, check
from npudoctor.checking.by_hand import SENTENCES, by_hand
from npudoctor.core import messages
from npudoctor.registry.registry import load_all
from npudoctor.testing import ask, fake_host

OWN = Fix("a remedy of its own")


@check(
    "accelerator",
    scope=Scope.NODE,
    codes={"accelerator.missing": Severity.ERROR, "accelerator.odd": Severity.ERROR},
)
def accelerator(host: Host) -> Iterator[Finding]:
    """Three findings of one code, and one that no sentence is about."""
    yield Finding("accelerator.missing", "gone")
    yield Finding("accelerator.missing", "gone", fix=OWN)
    yield Finding("accelerator.missing", "gone", severity=Severity.WARNING)
    yield Finding("accelerator.odd", "odd")


def test_every_error_has_a_sentence_and_every_sentence_an_error() -> None:
    codes = {code: severity for one in load_all({}).checks for code, severity in one.codes.items()}
    assert set(SENTENCES) == {code for code, severity in codes.items() if severity is Severity.ERROR}


def test_it_is_said_where_the_check_knows_nothing_to_type() -> None:
    bare, own, warning, odd = ask(accelerator, fake_host()).findings
    assert bare.fix == by_hand("accelerator.missing")
    assert bare.fix is not None and (bare.fix.commands, bare.fix.title[:32]) == (
        (),
        "if this machine has accelerators",
    )
    assert (own.fix, warning.fix, odd.fix) == (OWN, None, None)


def test_it_says_who_does_what_in_one_sentence() -> None:
    messages.activate("en")
    for code, sentence in SENTENCES.items():
        assert sentence[0].islower() and not sentence.endswith("."), code
        assert 20 < len(sentence) < 200, code
