"""What became of the broken environments: a row of each, and how many of each kind and on which Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One environment. `ending` is empty where no remedy was tried."""

    name: str
    kind: str
    python: str
    broken: bool
    full: str
    deep: str
    codes: str
    ending: str
    seconds: float


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """All of it."""
    for row in rows:
        said = row.full if row.full == row.deep else f"{row.full}/{row.deep}"
        yield f"{said:12} {row.seconds:4.0f} s {row.name:36} {row.codes} {row.ending}".rstrip()
    for python in sorted({row.python for row in rows}, key=lambda version: int(version.split(".")[1])):
        yield f"{python:12} {counted([row for row in rows if row.python == python])}"
    for kind in dict.fromkeys(row.kind for row in rows):
        yield f"{kind:12} {counted([row for row in rows if row.kind == kind])}"
    yield f"{'all':12} {counted(rows)}"


def counted(rows: Sequence[Row]) -> str:
    """How many were said what."""
    working = [row for row in rows if not row.broken]
    kinds = [
        f"{len(rows) - len(working)} broken",
        f"full: {_kinds([row.full for row in rows if row.broken])}",
        f"deep: {_kinds([row.deep for row in rows if row.broken])}",
        f"{len(working)} working",
        f"full: {_kinds([row.full for row in working])}",
        f"deep: {_kinds([row.deep for row in working])}",
        f"remedies: {_kinds([row.ending.partition(':')[0] for row in rows if row.ending])}",
        f"{sum(row.seconds for row in rows):.0f} s",
    ]
    return "; ".join(kinds)


def _kinds(words: Sequence[str]) -> str:
    counts = Counter(words)
    return ", ".join(f"{counts[word]} {word}" for word in sorted(counts)) or "none"
