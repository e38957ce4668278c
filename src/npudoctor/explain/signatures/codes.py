"""Finds what a code stands for: an error code of CANN, the id of a signature, the code of a finding."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudoctor.core import messages
from npudoctor.core.docstrings import dedent_docstring
from npudoctor.core.lazy import pattern
from npudoctor.explain.signatures.signatures import Signature

_ITEMS, _COLON = pattern(r"^- ", re.MULTILINE), pattern(": ?|：")
# A blank with Chinese, or its punctuation, at both sides; or with such punctuation at one.
_WITHIN_CHINESE = pattern(
    "(?<=[\u2e80-\u9fff\uff00-\uffef]) (?=[\u2e80-\u9fff\uff00-\uffef])|(?<=[\u3000-\u303f\uff00-\uffef]) "
)


def codes_of(signatures: Sequence[Signature]) -> set[str]:
    """All codes and ids that can be asked for."""
    return {name for signature in signatures for name in (signature.id, *signature.codes)}


def find_by_code(word: str, signatures: Sequence[Signature]) -> list[Signature]:
    """The signatures with this id or error code, by weight, the heaviest first."""
    code = word.strip().lower()
    matching = [
        signature
        for signature in signatures
        if code == signature.id or code in map(str.lower, signature.codes)
    ]
    return sorted(matching, key=lambda signature: -signature.weight)


def signature_of_finding(code: str, check: str, title: str, manual: str) -> Signature:
    """The code of a finding, explained by the manual of its check."""
    # What a list of the manual says of the code: "- `CODE`: ...", or of several before the colon.
    meaning = ""
    for item in _ITEMS.split(_translate(dedent_docstring(manual)))[1:]:
        head, _colon, text = _COLON.sub("\0", item.split("\n\n")[0], 1).partition("\0")
        if f"`{code}`" in head or f"`{code.partition('.')[2]}`" in head:
            meaning = text[:1].upper() + text[1:]
            break
    why = _section_of(manual, "Why it matters") or _section_of(manual, "What it does")
    # Lines joined: by a blank, which Chinese does not have between two of its characters.
    cause = _WITHIN_CHINESE.sub("", " ".join(f"{meaning} {why}".split())) or title
    title = messages._("{code}, a finding of the check: {title}").format(code=code, title=title)
    ask = f"npudoctor check {check}"
    both = (ask, f"npudoctor show {check}")
    return Signature(
        id=code,
        category="other",
        environment=True,
        weight=100,
        patterns=(),
        title={"en": title, "zh": title},
        cause={"en": cause, "zh": cause},
        remedy={"en": both, "zh": both},
        checks=(check,),
        source="",
        as_of="",
    )


def _section_of(manual: str, heading: str) -> str:
    """The text under a heading of a manual, in the language spoken now."""
    _before, title, after = dedent_docstring(manual).partition(f"## {heading}\n")
    return _translate(after.partition("\n## ")[0]) if title else ""


def _translate(text: str) -> str:
    return "\n\n".join(map(messages.manual, text.strip("\n").split("\n\n")))
