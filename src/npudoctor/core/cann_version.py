"""Version numbers of CANN: the order of releases, the train of a component number, what a range accepts."""

from __future__ import annotations

import re
from typing import Optional

from npudoctor.core.lazy import pattern

_PRODUCT = pattern(
    # 8.2.RC1, 8.0.0, 8.0.T13, 8.1.RC1.alpha001, 8.3.RC1-beta.1, 7.0.0.SPC3.
    r"(\d+)\.(\d+)\.(RC\d+|T\d+|\d+)((?:\.\d+)*)(?:[.-](alpha|beta|rc)\.?(\d+))?(?:\.SPC(\d+))?\Z",
    re.IGNORECASE,
)
# Order of the stages of one release.
_STAGES = {"alpha": 0, "beta": 1, "rc": 2}
_FINAL = 3
# The bound is there for int(): Python 3.11 raises ValueError above 4300 digits, older ones need quadratic
# time.
_LONGEST = 99  # characters of a version
_CLAUSE = pattern(r"(>=|<=|==|>|<)?\s*(\d+(?:\.\d+)*)\s*\Z")


def sort_key(product: Optional[str]) -> Optional[tuple[tuple[int, ...], ...]]:
    """What sorts product versions by age: T and alpha before beta before RCn before the final number.

    None for a version in no known form: releases before 5.1 used several others.
    """
    match = _PRODUCT.match((product or "").strip()[:_LONGEST])
    if match is None:
        return None
    major, minor, third, patch, stage, number, pack = match.groups()
    word = third.upper()
    # In 8.2.RC1 and 8.0.T13 the third part is no number: both count as a stage of x.y.0.
    head = (int(major), int(minor), 0 if word[0] in "RT" else int(third))
    kind = (2, int(third[2:])) if word[0] == "R" else (0, int(third[1:])) if word[0] == "T" else (_FINAL, 0)
    stage_key = (_STAGES[stage.lower()], int(number)) if stage else (_FINAL, 0)
    return head, kind, numbers(patch), stage_key, (int(pack or 0),)


def is_at_least(product: Optional[str], first: str) -> Optional[bool]:
    """Return whether a product version is in this release line (8.1) or a later one; None when it is
    unknown.
    """
    key = sort_key(product)
    return None if key is None else key[0][:2] >= numbers(first)


def numbers(text: str) -> tuple[int, ...]:
    """The numbers in a version, in order."""
    return tuple(int(word) for word in re.findall(r"\d+", text[:_LONGEST]))


def train(number: Optional[str]) -> Optional[str]:
    """The major.minor of a component number, by which CANN and frameworks compare; None when it has none."""
    match = re.match(r"\d+\.\d+", number or "")
    return match[0] if match else None


def accepts(requirement: str, number: str) -> Optional[bool]:
    """Whether a range such as ">=7.6, <=7.7" accepts a component number; None when it cannot be parsed.

    As many parts are compared as the range names: 7.7.0.1.238 is 7.7.
    """
    digits = re.match(r"\d+(?:\.\d+)*", number)
    clauses = [_CLAUSE.match(clause.strip()) for clause in requirement.split(",")]
    if digits is None or not all(clauses):
        return None
    return all(_holds(match[1] or "==", numbers(digits[0]), numbers(match[2])) for match in clauses if match)


def _holds(operator: str, version: tuple[int, ...], bound: tuple[int, ...]) -> bool:
    """Compare as many parts as the bound has: 7.7.0.1 is "<=7.7" and is not ">7.7"."""
    # Component numbers have five parts and bounds two: comparing all of them would make 7.7.0.1 greater than
    # 7.7.
    version = version[: len(bound)]
    return {
        ">=": version >= bound,
        "<=": version <= bound,
        "==": version == bound,
        ">": version > bound,
        "<": version < bound,
    }[operator]
