"""What a scan found in one file: plain data, which processes hand to each other and parts are joined from."""

from __future__ import annotations

from typing import Callable, Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.explain.scanning.outline import Outline

RANKS = 4096  # so many ranks are told apart in one file
SHOWN = 8  # so many marks of a kind are kept from the start, and as many from the end


@dataclass(frozen=True)
class LogLine:
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
    is_mild: bool = False
    is_handled: bool = False
    is_direct_cause: bool = False
    is_teardown: bool = False
    is_uncaught: bool = False
    is_retried: bool = False


class SignatureMatch:
    """Where one signature was found in a file: `ranks` has the first line of each rank, `last` the last line
    that is not a warning, `final` the last line of all."""

    def __init__(self) -> None:
        self.count = 0
        self.ranks: dict[Optional[int], LogLine] = {}
        self.last: Optional[LogLine] = None  # that does not call itself a warning
        self.final: Optional[LogLine] = None  # whatever it calls itself

    def add(self, log_line: LogLine, count: int = 1) -> None:
        """Count a line; one that is no mere warning takes the place of one that is."""
        self.count += count
        earlier = self.ranks.get(log_line.rank)
        if (earlier is None and len(self.ranks) < RANKS) or (
            earlier is not None and earlier.is_mild and not log_line.is_mild
        ):
            self.ranks[log_line.rank] = log_line
        self.note_end(log_line)

    def note_end(self, log_line: LogLine) -> None:
        """Note where it was last."""
        self.final = log_line
        if not log_line.is_mild:
            self.last = log_line


class Evidence:
    """Everything that was found in one file, or in a part of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.bytes = 0
        self.lines = 0
        self.lines_before = 0  # lines of the file before what was read
        self.problem: Optional[str] = None
        self.is_unread = False  # nothing of it could be read
        self.is_binary = False  # no log at all
        self.matches: dict[int, SignatureMatch] = {}
        self.marks: dict[int, list[LogLine]] = {}
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
        marks = (log_line.offset for lines in self.marks.values() for log_line in lines[:1])
        places = (log_line.offset for match in self.matches.values() for log_line in match.ranks.values())
        return min((*marks, *places), default=0)

    def note_mark(self, index: int, log_line: LogLine) -> None:
        """Note a sign of failure; of many the first and the last ones are kept."""
        lines = self.marks.setdefault(index, [])
        lines.append(log_line)
        # The oldest of the last ones goes; the first SHOWN stay.
        if len(lines) > 2 * SHOWN:
            del lines[SHOWN]
        self.counts[index] = self.counts.get(index, 0) + 1

    def join_part(self, later: Evidence) -> None:
        """Take in what was found in the part that follows this one."""
        for owner, other in later.matches.items():
            match = self.matches.setdefault(owner, SignatureMatch())
            for log_line in other.ranks.values():
                match.add(self._renumber_from_start(log_line), 0)
            match.count += other.count
            match.last = self._renumber_from_start(other.last) if other.last else match.last
            match.final = self._renumber_from_start(other.final) if other.final else match.final
        for index, marks in later.marks.items():
            for log_line in marks:
                self.note_mark(index, self._renumber_from_start(log_line))
            self.counts[index] += later.counts[index] - len(marks)
        self.aside |= later.aside
        self.root = later.root if self.root is None else self.root
        self.problem = self.problem or later.problem
        self.is_unread = self.is_unread and later.is_unread
        self.bytes += later.bytes
        if later.outline is not None:
            starts = (replace(start, line=start.line + self.lines) for start in later.outline.starts)
            self.outline = replace(later.outline, starts=tuple(starts))
        self.end = later.end or self.end
        self.lines += later.lines

    def renumber_lines(self, renumbered: Callable[[LogLine], LogLine]) -> None:
        """Replace the line numbers of all matches, marks and starts, in place.

        A part of a file is scanned with numbers from its own first line; `renumbered` returns the line with
        its number in the whole file.
        """
        for match in self.matches.values():
            match.ranks = {rank: renumbered(log_line) for rank, log_line in match.ranks.items()}
            match.last = match.last and renumbered(match.last)
            match.final = match.final and renumbered(match.final)
        self.marks = {index: list(map(renumbered, marks)) for index, marks in self.marks.items()}
        if self.outline is not None:
            starts = (
                replace(start, line=renumbered(LogLine(start.line, start.offset, start.text)).line)
                for start in self.outline.starts
            )
            self.outline = replace(self.outline, starts=tuple(starts))

    def number_in_file(self) -> None:
        """Give all lines the numbers that they have in the file, of which only the end was read."""
        self.renumber_lines(lambda log_line: replace(log_line, line=log_line.line + self.lines_before))

    def _renumber_from_start(self, log_line: LogLine) -> LogLine:
        """A line of a later part, numbered from the start of the file."""
        return replace(log_line, line=log_line.line + self.lines)
