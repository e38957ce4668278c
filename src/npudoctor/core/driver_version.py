"""Version numbers of the Ascend driver and firmware: how they are ordered, and what a range accepts. Pure."""

from __future__ import annotations

import re
from typing import Optional

from npudoctor.core.lazy import pattern

_TOKEN = pattern(r"\d+|[a-z]+")
_BOUND = pattern(r"(>=|<=|>|<|==?)?[ \t]*([\w.]+)\Z")
# Words in a version come before numbers: 25.0.rc1 is before 25.0.0.
_WORDS = {"alpha": 0, "t": 0, "beta": 1, "b": 1, "rc": 2}

_LONGEST = 99  # characters of a version; digits without end are no number to Python either

Key = tuple[tuple[int, int], ...]


def sort_key(version: str) -> Key:
    """A version to compare, in natural order: 7.7.0.1.231 is before 7.7.99, 25.0.rc1 before 25.0.0."""
    tokens = _TOKEN.findall(version[:_LONGEST].lower())
    # A word of which we know nothing ranks as rc does, and before every number.
    return tuple((3, int(token)) if token.isdecimal() else (_WORDS.get(token, 2), -1) for token in tokens)


def is_in_line(version: str, prefix: str) -> bool:
    """Whether a version belongs to a release line: 24.1.rc3 belongs to 24.1 and to 24.1.RC3; 24.10 does not
    belong to 24.1."""
    line = sort_key(prefix)
    return sort_key(version)[: len(line)] == line


def accepts(version: str, requirement: str) -> Optional[bool]:
    """Return whether a version meets a requirement: a plain version is the minimum; [a,b], (a,b) and ">=a,
    <=b" are ranges.

    An upper bound covers all that begins with it: 7.7.0.1 is within [7.0,7.7]. None when it cannot be parsed.
    """
    requirement = requirement.strip().strip('"').strip()
    bounds = requirement.strip("[]()").split(",")
    if requirement[:1] in ("[", "(") and requirement[-1:] in ("]", ")") and len(bounds) == 2:
        lower, upper = (bound.strip() for bound in bounds)
        texts = [
            (">=" if requirement[0] == "[" else ">") + lower,
            ("<=" if requirement[-1] == "]" else "<") + upper,
        ]
    else:
        texts = requirement.split(",")
    answers = [_holds(version, text.strip()) for text in texts]
    return None if None in answers else all(answers)


def bracket_groups(value: str) -> list[tuple[str, ...]]:
    """The bracket groups of a comma list: "[a,b],[c]" is (a, b), (c)."""
    return [
        tuple(part.strip() for part in group.split(",") if part.strip())
        for group in re.findall(r"\[([^\[\]]*)\]", value)
    ]


def _holds(version: str, text: str) -> Optional[bool]:
    match = _BOUND.match(text)
    if match is None or not sort_key(version) or not sort_key(match[2]):
        return None
    key, bound = sort_key(version), sort_key(match[2])
    sign = match[1] or ">="
    # "=24.1" means every 24.1.x.
    if sign in ("=", "=="):
        return is_in_line(version, match[2])
    if sign == ">=":
        return key >= bound
    if sign == ">":
        return key > bound and not is_in_line(version, match[2])
    return (key < bound and not is_in_line(version, match[2])) or (
        sign == "<=" and is_in_line(version, match[2])
    )
