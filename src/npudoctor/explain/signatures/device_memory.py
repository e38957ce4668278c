"""The numbers in a report of exhausted device memory: whether the job asks too much, or another process
holds it."""

from __future__ import annotations

import re
from typing import Optional

from npudoctor.core.lazy import pattern

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = r"([\d.]+) ?(GiB|MiB|KiB|GB|MB|KB|B)\b"
_TRIED = pattern(rf"Tried to allocate {_SIZE}")
_TOTAL = pattern(rf"{_SIZE} total capacity|total capacity of {_SIZE}")
_FREE = pattern(rf"{_SIZE} free\b|of which {_SIZE} is free")
_MINE = tuple(
    pattern(expression)
    for expression in (
        rf"this process has {_SIZE} memory in use",
        rf"{_SIZE} reserved in total",
        rf"{_SIZE} already allocated",
    )
)
_NAMED = pattern(r"\bProcess \d+ has [\d.]+ ?[KMG]i?B memory in use")
# Of the card: less is what drivers and contexts take, and the buffers of collectives, of which the
# allocator knows nothing; where other processes are named there is no doubt.
_MUCH, _SURELY = 0.25, 0.1
_MOSTLY = 0.9  # of the card, and it is the job's
_PIECES = 0.01


def is_held_elsewhere(text: str) -> bool:
    """Whether the allocation would fit but for what no process of this job holds; False where that is not
    said."""
    sizes = _sizes(text)
    if sizes is None:
        return False
    tried, total, free, held = sizes
    held_by_others = total - free - held
    much = _SURELY if _NAMED.search(text) else _MUCH
    is_full = free < tried or free < _PIECES * total  # what is free may lie in pieces
    return is_full and tried <= free + held_by_others and held_by_others >= much * total


def is_held_by_job(text: str) -> bool:
    """Whether the job itself holds what is missing; False where that is not said, or others are named."""
    sizes = _sizes(text)
    if sizes is None or _NAMED.search(text):
        return False
    tried, total, free, held = sizes
    if held >= _MOSTLY * total:  # what is free may lie in pieces
        return True
    is_whole = held + tried > total  # nobody else could be on the card, and it would not fit
    return tried > free and (is_whole or total - free - held < _SURELY * total)


def _sizes(text: str) -> Optional[tuple[float, float, float, float]]:
    """What was asked for, the size of the card, what of it is free, and what this process holds."""
    tried, total, free = (_bytes(pattern, text) for pattern in (_TRIED, _TOTAL, _FREE))
    held = next((size for size in (_bytes(pattern, text) for pattern in _MINE) if size is not None), None)
    if tried is None or total is None or free is None or held is None:
        return None
    return tried, total, free, held


def _bytes(pattern: re.Pattern[str], text: str) -> Optional[float]:
    """The size that a pattern finds."""
    match = pattern.search(text)
    if match is None:
        return None
    number, unit = (part for part in match.groups() if part is not None)
    try:
        return float(number) * _UNITS[unit]
    except ValueError:  # "1.2.3"
        return None
