"""What a scan found in one file: plain data, which processes hand to each other and parts are joined from."""

from __future__ import annotations

from typing import Callable, Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.explain.scanning.outline import Outline

RANKS = 4096  # so many ranks are told apart in one file
SHOWN = 8  # so many marks of a kind are kept from the start, and as many from the end


@dataclass(frozen=True)
class Seen:
    """A line at which something was found. `low`: it calls itself a warning or information; `handled`: an
    exception that was handled, and another came; `cause`: the direct cause of a later one; `teardown`:
    of a thread that was left when all else was gone; `uncaught`: of an exception that nobody caught, so that
    the process is dead whatever others write after it; `retried`: it says that it is tried once more, or done
    without. `text` is never empty."""

    line: int
    offset: int
    text: str
    rank: Optional[int] = None
    moment: Optional[float] = None
    low: bool = False
    handled: bool = False
    cause: bool = False
    teardown: bool = False
    uncaught: bool = False
    retried: bool = False


class Match:
    """Where one signature was found in a file: the first line of each rank, how often, and where last."""

    def __init__(self) -> None:
        self.count = 0
        self.ranks: dict[Optional[int], Seen] = {}
        self.last: Optional[Seen] = None  # that does not call itself a warning
        self.final: Optional[Seen] = None  # whatever it calls itself

    def add(self, seen: Seen, count: int = 1) -> None:
        """Count a line; one that is no mere warning takes the place of one that is."""
        self.count += count
        known = self.ranks.get(seen.rank)
        if (known is None and len(self.ranks) < RANKS) or (known is not None and known.low and not seen.low):
            self.ranks[seen.rank] = seen
        self.note_end(seen)

    def note_end(self, seen: Seen) -> None:
        """Note where it was last."""
        self.final = seen
        if not seen.low:
            self.last = seen


class Evidence:
    """All that one file, or a part of it, says."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.bytes = 0
        self.lines = 0
        self.before = 0  # lines of the file before what was read
        self.problem: Optional[str] = None
        self.unread = False  # nothing of it could be read
        self.binary = False  # no log at all
        self.matches: dict[int, Match] = {}
        self.marks: dict[int, list[Seen]] = {}
        self.counts: dict[int, int] = {}  # of marks
        self.aside: set[tuple[int, int]] = (
            set()
        )  # signatures whose `near` (1) or `without` (2) is in the file
        self.root: Optional[int] = None  # the rank that a launcher says failed first
        self.outline: Optional[Outline] = None  # None where nothing was found
        self.end = 0  # in bytes as they were scanned

    @property
    def first(self) -> int:
        """Where something was found first."""
        marks = (seen.offset for kept in self.marks.values() for seen in kept[:1])
        places = (seen.offset for match in self.matches.values() for seen in match.ranks.values())
        return min((*marks, *places), default=0)

    def mark(self, index: int, seen: Seen) -> None:
        """Note a sign of failure; of many the first and the last ones are kept."""
        kept = self.marks.setdefault(index, [])
        kept.append(seen)
        if len(kept) > 2 * SHOWN:
            del kept[SHOWN]
        self.counts[index] = self.counts.get(index, 0) + 1

    def join(self, later: Evidence) -> None:
        """Take in what was found in the part that follows this one."""
        for owner, other in later.matches.items():
            match = self.matches.setdefault(owner, Match())
            for seen in other.ranks.values():
                match.add(self._shift(seen), 0)
            match.count += other.count
            match.last = self._shift(other.last) if other.last else match.last
            match.final = self._shift(other.final) if other.final else match.final
        for index, marks in later.marks.items():
            for seen in marks:
                self.mark(index, self._shift(seen))
            self.counts[index] += later.counts[index] - len(marks)
        self.aside |= later.aside
        self.root = later.root if self.root is None else self.root
        self.problem = self.problem or later.problem
        self.unread = self.unread and later.unread
        self.bytes += later.bytes
        if later.outline is not None:
            starts = (replace(start, line=start.line + self.lines) for start in later.outline.starts)
            self.outline = replace(later.outline, starts=tuple(starts))
        self.end = later.end or self.end
        self.lines += later.lines

    def renumber(self, renumbered: Callable[[Seen], Seen]) -> None:
        """Give all lines other numbers."""
        for match in self.matches.values():
            match.ranks = {rank: renumbered(seen) for rank, seen in match.ranks.items()}
            match.last = match.last and renumbered(match.last)
            match.final = match.final and renumbered(match.final)
        self.marks = {index: list(map(renumbered, marks)) for index, marks in self.marks.items()}
        if self.outline is not None:
            starts = (
                replace(start, line=renumbered(Seen(start.line, start.offset, start.text)).line)
                for start in self.outline.starts
            )
            self.outline = replace(self.outline, starts=tuple(starts))

    def number_in_file(self) -> None:
        """Give all lines the numbers that they have in the file, of which only the end was read."""
        self.renumber(lambda seen: replace(seen, line=seen.line + self.before))

    def _shift(self, seen: Seen) -> Seen:
        """A line of a later part, numbered from the start of the file."""
        return replace(seen, line=seen.line + self.lines)
