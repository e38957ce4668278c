"""Texts that a regular expression matches: one for each alternative in it, so that none goes untested."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as c  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as c
    import sre_parse as parser

_FEW = 8  # members of a class that are each an alternative of their own
_CLASSES = {c.CATEGORY_WORD: "m", c.CATEGORY_DIGIT: "7", c.CATEGORY_SPACE: " ", c.CATEGORY_NOT_SPACE: "m"}


def samples(pattern: str) -> list[str]:
    """Each choice of the pattern is in one of them; what looks around is passed over."""
    return _sequence(parser.parse(pattern))


def _sequence(parts: Any) -> list[str]:
    """The first choice of each part, and then every other choice of one part after the other."""
    choices = [_part(operator, value) or [""] for operator, value in parts]
    first = [one[0] for one in choices]
    found = ["".join(first)]
    for at, one in enumerate(choices):
        found += ["".join([*first[:at], other, *first[at + 1 :]]) for other in one[1:]]
    return list(dict.fromkeys(found))


def _part(operator: Any, value: Any) -> list[str]:
    if operator is c.LITERAL:
        return [chr(value)]
    if operator is c.IN:
        return _members(value)
    if operator is c.BRANCH:
        return [text for way in value[1] for text in _sequence(way)]
    if operator is c.SUBPATTERN:
        return _sequence(value[-1])
    if operator in (c.MAX_REPEAT, c.MIN_REPEAT):
        least, _most, inner = value
        texts = [text * max(least, 1) for text in _sequence(inner)]
        return texts if least else [*texts, ""]
    return [""] if operator in (c.ASSERT, c.ASSERT_NOT, c.AT) else ["m"]


def _members(value: Any) -> list[str]:
    if value[0][0] is c.NEGATE:
        no_blank = (c.LITERAL, ord(" ")) in value or (c.CATEGORY, c.CATEGORY_SPACE) in value
        return ["m" if no_blank else " "]
    literals = [chr(one) for operator, one in value if operator is c.LITERAL]
    if len(literals) == len(value) <= _FEW:
        return literals
    for operator, one in value:
        if operator is c.RANGE:
            return [chr(one[0] + 3)]
        if operator is c.CATEGORY:
            return [_CLASSES[one]]
    return literals[:1]
