"""What a code stands for: an error code of CANN, the id of a signature, the code of a finding."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.explain.signatures.signatures import Signature


def codes_of(signatures: Sequence[Signature]) -> set[str]:
    """All codes and ids that can be asked for."""
    return {name for one in signatures for name in (one.id, *one.codes)}


def found_by(word: str, signatures: Sequence[Signature]) -> list[Signature]:
    """The signatures that answer to a code, those that are causes first."""
    asked = word.strip().lower()
    found = [one for one in signatures if asked == one.id or asked in map(str.lower, one.codes)]
    return sorted(found, key=lambda one: -one.weight)


def of_check(code: str, check: str, title: str, manual: str) -> Signature:
    """The code of a finding, explained by the manual of its check."""
    cause = _part(manual, "Why it matters") or _part(manual, "What it does") or title
    ask = f"npudoctor check {check}"
    both = (ask, f"npudoctor show {check}")
    return Signature(
        id=code,
        category="other",
        environment=True,
        weight=100,
        patterns=(),
        title={"en": f"{code}: {title}", "zh": f"{code}: {title}"},
        cause={"en": cause, "zh": cause},
        remedy={"en": both, "zh": both},
        checks=(check,),
        source="",
        as_of="",
    )


def _part(manual: str, heading: str) -> str:
    """The text under a heading of a manual, as one paragraph."""
    _before, found, after = manual.partition(f"## {heading}")
    return " ".join(after.split("\n## ")[0].split("## ")[0].split()) if found else ""
