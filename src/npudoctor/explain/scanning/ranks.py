"""Which rank a line or a file belongs to."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.lazy import pattern

# What launchers put before each line.
_START = pattern(
    r"\[rank(\d{1,6})\]|\[(?:default|stderr|stdout)(\d{1,6})\]:|\[(\d{1,6})\]:|\[1,(\d{1,6})\]<std"
    r"|(\d{1,5}): |\[(?:global )?rank[ :=](\d{1,6})\]|Rank (\d{1,6})\b"
)
# Only what names the writer itself: "from remote rank [3]" is about another one.
_NAMED = pattern(
    r"\[rank(\d{1,6})\]|\bRankID:(\d{1,6})\b|\[Rank (\d{1,6})\]|\brank_id[=:] ?(\d{1,6})\b"
    r"|\bRANK=(\d{1,6})\b|\b[Rr]ank (\d{1,6})(?::| exited| failed)"
)
_PATHS = (
    pattern(r"(?:^|[/_.-])(?:global[_-]?)?rank[_.-]?(\d{1,6})(?=[/_.-]|$)"),
    pattern(r"(?:^|/)worker[_-](\d{1,6})(?=[_.-]|$)"),
    pattern(r"(?:^|/)attempt_\d+/(\d{1,6})/(?:std|error)"),
    pattern(r"(?:^|/)log_?output/1/rank\.(\d{1,6})/"),
    pattern(r"(?:^|/)workerlog\.(\d{1,6})$"),
)


def rank_of_line(line: str) -> Optional[int]:
    """The rank that a line says it is from."""
    # A rank stands in the prefix of a line, never in its text.
    start = line[:400]
    match = _START.match(start)
    if match is None and ("ank" in start or "RANK" in start):
        match = _NAMED.search(start)
    return None if match is None else int(next(part for part in match.groups() if part))


def rank_of_path(path: str) -> Optional[int]:
    """The rank whose log a file is, by its name or a folder's: the last that says so."""
    for expression in _PATHS:
        numbers = expression.findall(path)
        if numbers:
            return int(numbers[-1])
    return None
