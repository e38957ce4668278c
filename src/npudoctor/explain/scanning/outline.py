"""The course of a log: where its job went on, where ordinary output was, where it was shut down, where a
program
started. Looked at only where something was found, and of a large log only its end."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.lazy import pattern
from npudoctor.explain.scanning.advance import last_advance
from npudoctor.explain.scanning.window import decode, lines_with
from npudoctor.explain.signatures import progress
from npudoctor.explain.signatures.recognise import is_indented, strip_prefix

KEPT = 1 << 20  # bytes of the end of a log that are looked at
_BEFORE = 64 << 10  # and so many before the first place at which something was found
_OWN = 128 << 10  # and so many of the own log of a library, which says little of the job
_LINES = 1500  # of so many lines at the end each is looked at, and about so many before
_STARTS = 500
_LETTERS = 16  # a first line of fewer letters is not known again,
_FEW = 8  # nor one of several of fewer
_FIRST = 12  # of so many lines at the begin of a log each may be known again,
_TOGETHER, _NEAR = 3.0, 6 << 10  # so many of them at least, within so many bytes,
_SHORT = 0.75  # where one of few letters counts less
_OFTEN = 200  # a line that comes again so often tells nothing
_LIKE = 12  # so much the length of it differs at most from run to run
# Words of lines that are no ordinary output; looked for one by one, which is faster than one expression.
_TROUBLE = (
    b"error", b"exception", b"fail", b"traceback", b"abort", b"kill", b"terminat", b"signal", b"warn",
    b"stack",
    b"core dump", b"^^^", b"~~~", b"no such file", b"not found", b"cannot", b"can't", b"unable", b"invalid",
    b"denied", b"refused", b"timed out", b"timeout", b"exit", b"...", b"srun: ", b"slurmstepd",
)  # fmt: skip
# What libraries write in their own logs, also while the job fails: it says nothing of the job.
_CHATTER = pattern(rb"^\[\w+\] ?\w+\(\d+,|NCCL INFO |\bDEBUG\b|\bTRACE\b|^[IWE]\d{4} \d\d:")
_FAILS = pattern(rb"(?i)error|exception|fail|traceback|can't")
_DIGITS = pattern(rb"\d+")
# The time as most logs write it, near the begin of a line; seconds say nothing of hours.
_CLOCK = pattern(rb"(?:^|\n)[^\n]{0,40}?(20\d\d)[-/](\d\d)[-/](\d\d)[ T_-](\d\d):(\d\d):\d\d")
_HOURS = 4


@dataclass(frozen=True)
class RunStart:
    """Where a program started: its place, the number of its line in the part that is looked at, its text."""

    offset: int
    line: int
    text: str


@dataclass(frozen=True)
class Outline:
    """The course of a log. `begin`: where what was looked at begins; `progress`: the last place that says
    that the job went on; `moved`: in more than that it saved how far it came; `success`: that it ended well;
    `served`: that a server answered; `shutdown`: where somebody began to end it after that; `last`: the last
    line that is not empty;
    `ordinary`: the places of lines of ordinary output; before `dense` of one in `each` lines."""

    begin: int = 0
    progress: Optional[int] = None
    moved: Optional[int] = None
    success: Optional[int] = None
    served: Optional[int] = None
    shutdown: Optional[int] = None
    last: int = 0
    each: int = 1
    dense: int = 0
    ordinary: tuple[int, ...] = field(default=())
    starts: tuple[RunStart, ...] = field(default=())

    def lines_between(self, first: int, last: Optional[int] = None) -> int:
        """About how many lines of ordinary output are between two places, or after one."""
        upto = len(self.ordinary) if last is None else bisect_right(self.ordinary, last)
        start = bisect_right(self.ordinary, first)
        dense = min(max(start, bisect_left(self.ordinary, self.dense)), max(start, upto))
        return self.each * (dense - start) + max(0, upto - dense)


def outline_of(block: bytes, begin: int, lines_before: int, head: bytes, first: int) -> Outline:
    """The course of a log by its end, which begins at a place; `lines_before` are the lines before that,
    `head` is how the log begins, `first` where something was found first: little before that matters."""
    least = len(block) - _OWN if _CHATTER.match(head) else 0
    skipped = block.rfind(b"\n", 0, max(0, least, first - _BEFORE - begin)) + 1
    lines_before += block.count(b"\n", 0, skipped)
    block, begin = block[skipped:], begin + skipped
    advance = last_advance(block, begin)
    course = _Course(block, begin, lines_before)
    course.note_edges()
    course.note_commands()
    course.note_gaps()
    course.note_repeats(head, first)
    went = -1 if advance.progress is None else advance.progress
    shutdown = next((place for place in course.shutdowns if place > went), None)
    last = begin + block.rfind(b"\n", 0, len(block.rstrip())) + 1
    # Of the last lines all that are ordinary output, of many before them one in so many.
    lines = block.split(b"\n")
    ends = list(itertools.accumulate(len(line) + 1 for line in lines))
    before = max(0, len(lines) - _LINES)
    each = 1 + before // _LINES
    looked = (*range(each - 1, before, each), *range(before, len(lines)))
    plain = (n for n in looked if (n or not begin) and _is_ordinary(lines[n]))  # the first line may be cut
    starts = tuple(sorted(course.starts, key=lambda start: start.offset))
    return Outline(
        begin,
        advance.progress,
        advance.moved,
        advance.success,
        advance.served,
        shutdown,
        last,
        each,
        begin + (ends[before - 1] if before else 0),
        tuple(begin + ends[n] - len(lines[n]) - 1 for n in plain),
        starts,
    )


def _is_ordinary(line: bytes) -> bool:
    """Whether a line is ordinary output."""
    start = line[:300]
    if not start or start.isspace():
        return False
    if b"\x1b" in start:
        start = decode(start).encode("utf-8", "surrogateescape")
    if is_indented(start) or progress.is_epilogue(start) or _CHATTER.search(start):
        return False
    return not any(map(start.lower().__contains__, _TROUBLE))


class _Course:
    """Where programs started and ended in order: looked for by the words of such lines."""

    def __init__(self, block: bytes, begin: int, lines_before: int) -> None:
        self._block, self._begin, self._lines = block, begin, lines_before
        self.starts: list[RunStart] = []
        self.shutdowns: list[int] = []

    def note_edges(self) -> None:
        """Note the first words of programs, and the words with which they are ended in order."""
        small = self._block.lower()
        for at in sorted({at for word in progress.EDGE for at in lines_with(small, word)}):
            text = strip_prefix(decode(self._line(at)[:300]))
            if progress.starts(text):
                self._start(at, text)
            elif progress.shuts_down(text):
                self.shutdowns.append(self._begin + at)

    def note_commands(self) -> None:
        """Note the commands that start a job. Without a prompt, who says so once may only say what to try."""
        commands = [(typed.start(), bool(typed["prompt"])) for typed in progress.TYPED.finditer(self._block)]
        several = sum(not prompt for _at, prompt in commands) > 1
        for at, prompt in commands:
            if prompt or several:
                self._start(at, decode(self._line(at)[:300]))

    def note_gaps(self) -> None:
        """Note where the clock says that nobody wrote for hours: no rank waits so long for another one."""
        before: Optional[int] = None
        for clock in _CLOCK.finditer(self._block):
            year, month, day, hour, minute = map(int, clock.groups())
            # In minutes, of months as long as any.
            now = (((year * 12 + month) * 31 + day) * 24 + hour) * 60 + minute
            if before is not None and now - before >= _HOURS * 60:
                at = self._block.rfind(b"\n", 0, clock.start(1)) + 1
                if _is_ordinary(self._line(at)):
                    self._start(at, decode(self._line(at)[:300]))
            before = now if before is None else max(before, now)

    def note_repeats(self, begin: bytes, first: int) -> None:
        """Note where the first line of the log comes again, or several of the first lines that are before
        the place at which something was found first."""
        head = _head(begin)
        if head is not None:
            for at in self._places_of(head):
                self._start(at, decode(self._line(at)[:300]))
        # Of the first lines those that are there once: what each rank says is there as often as there are
        # ranks, and what is drawn as a table is also drawn at the end.
        lines = begin[:first].split(b"\n")
        times = Counter(map(_mask, lines[: 2 * _FIRST]))
        places: list[tuple[float, list[int]]] = []
        own = 0
        for line in lines[:_FIRST]:
            head = _head(line, _FEW)
            if head is not None and times[_mask(line)] == 1 and not line.startswith((b"|", b"+")):
                again = [at for at in self._places_of(head) if at + self._begin > own]
                places.append((head.weight, again))
            own += len(line) + 1
        for at in _clusters(places):
            self._start(at, decode(self._line(at)[:300]))

    def _places_of(self, head: _FirstLine) -> list[int]:
        """Where a line is again."""
        return [at for at in lines_with(self._block, head.piece) if head.is_repeated_by(self._line(at))]

    def _line(self, at: int) -> bytes:
        end = self._block.find(b"\n", at)
        return self._block[at:] if end < 0 else self._block[at:end]

    def _start(self, at: int, text: str) -> None:
        if len(self.starts) < _STARTS:
            line = self._lines + self._block.count(b"\n", 0, at) + 1
            self.starts.append(RunStart(self._begin + at, line, text))


def _head(begin: bytes, least: int = _LETTERS) -> Optional[_FirstLine]:
    """The first line of a log, when it can be known again by its letters."""
    first = next((line for line in begin.split(b"\n")[:5] if line.strip()), b"")
    telling = not _FAILS.search(first[:300]) and not first[:1].isspace()
    text = strip_prefix(decode(first[:300])).split('\\n","')[
        0
    ]  # what docker puts after a line is no part of it
    letters = sum(map(str.isalpha, text))
    return _FirstLine(first, 1.0 if letters >= _LETTERS else _SHORT) if telling and letters >= least else None


def _clusters(places: Sequence[tuple[float, Sequence[int]]]) -> Iterator[int]:
    """Where several of the first lines of a log are again, close together and in their order; each with
    what it counts."""
    rare = [
        (at, number)
        for number, (_weight, offsets) in enumerate(places)
        if len(offsets) <= _OFTEN
        for at in offsets
    ]
    rare.sort()
    upto = -1
    for index, (at, number) in enumerate(rare):
        if at <= upto:
            continue
        last, together, end = number, places[number][0], at
        for later, following in rare[index + 1 :]:
            if later > at + _NEAR:
                break
            if following > last:
                last, together, end = following, together + places[following][0], later
        if together >= _TOGETHER:
            upto = end
            yield at


class _FirstLine:
    """The first line of a log: a program that starts again says it again."""

    def __init__(self, line: bytes, weight: float) -> None:
        self.weight = weight
        self._length, self._line = len(line), _mask(line)
        self.piece = max(_DIGITS.split(line[:200]), key=len)  # what of it is the same each time

    def is_repeated_by(self, line: bytes) -> bool:
        """Whether a line is the same but for its numbers."""
        return abs(len(line) - self._length) <= _LIKE and _mask(line) == self._line


def _mask(line: bytes) -> bytes:
    """A line without what differs from run to run."""
    return _DIGITS.sub(b"0", line[:200])
