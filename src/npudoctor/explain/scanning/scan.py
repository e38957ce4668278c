"""One pass over the bytes of a log: what is found is judged line by line, with the lines around at hand."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Optional, TypeVar

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.explain.scanning import ranks
from npudoctor.explain.scanning.evidence import SHOWN, Evidence, SignatureMatch
from npudoctor.explain.scanning.flood import LineKinds
from npudoctor.explain.scanning.last_words import find_last_words
from npudoctor.explain.scanning.levels import is_mild
from npudoctor.explain.scanning.matching import Hit, Matcher
from npudoctor.explain.scanning.outline import KEPT, outline_of
from npudoctor.explain.scanning.place import WindowLine
from npudoctor.explain.scanning.window import Window
from npudoctor.explain.signatures.failures import ENDED, MARKS, WORDS
from npudoctor.explain.signatures.quoted import is_harmless
from npudoctor.explain.signatures.recognise import UNIT_LINES
from npudoctor.explain.signatures.table import Needle, SignatureTable

T = TypeVar("T")

CONTEXT = 64 << 10  # what lies around a piece and is at hand when it is judged
JUDGING = 5.0  # seconds of CPU that the lines of one file, or one part of it, are looked at
_GLANCE = 64  # lines after which the time is asked
_LEAST = 256 << 10  # smaller pieces are put together
_SEAM = 8 << 10  # longer than any line that is looked at as a whole
HEAD = 8 << 10  # of the start of a log is enough to know it again
_PROVEN = 500  # found so often, it is no longer asked what is near, unless that is the line itself
_LOOK, _LONG = 8 << 10, 64  # of so many bytes at its begin the length of lines is judged; long ones
_WORDS = next(index for index, mark in enumerate(MARKS) if mark.name == WORDS)
_ROOT = pattern(r"^[ \t]*rank[ \t]*: (\d{1,6})\b")


class Scan:
    """One pass over a file, or over the part `own` of it: what lies around that is context only."""

    def __init__(
        self,
        table: SignatureTable,
        matcher: Matcher,
        path: str,
        year: int,
        base: int = 0,
        own: Optional[tuple[int, int]] = None,
        until: float = math.inf,
        judging: Optional[float] = None,
        head: bytes = b"",
    ) -> None:
        self._table, self._matcher, self._year, self._own = table, matcher, year, own
        self._judging = JUDGING if judging is None else judging
        self._rank = ranks.rank_of_path(path)
        self._until = until
        self._spent = 0.0  # seconds of CPU on looking at lines
        self._base = base  # of the piece that is judged
        self._offsets: dict[tuple[int, int], list[int]] = {}  # of each owner, where it was noted last
        self._head = head[:HEAD]  # how the log begins; a part that is read here is told
        self._kinds, self._ranks = LineKinds(), set[Optional[int]]()
        self._last: dict[int, deque[WindowLine]] = {}  # of each owner the last lines that were only counted
        self._needles_by_numbers: dict[
            frozenset[int], list[Needle]
        ] = {}  # of the numbers of a line, what to look for
        self.evidence = Evidence(path)

    def scan_pieces(self, pieces: Iterable[bytes]) -> Evidence:
        """What the pieces say; the first begins at `base`."""
        before, piece = b"", b""
        end: deque[bytes] = deque()
        hits: list[Hit] = []
        for following in itertools.chain(_batches(pieces), (b"",)):
            if not self._base and not piece:
                self._head = following[:HEAD]
            over = self._spent > self._judging
            next_hits = [] if over else self._find_hits(piece, following)
            if piece:
                if over:  # of what looks like an error there was no end: the end of the log tells how it went
                    start = max(0, len(piece) - CONTEXT)
                    last_hits = [] if following else self._matcher.find(piece[start:])
                    hits = [(number, start + at) for number, at in last_hits]
                self._judge_piece(before, piece, following, hits)
                self._base += len(piece)
                before = piece
                end.append(piece)
                while sum(map(len, end)) - len(end[0]) >= KEPT:
                    end.popleft()
            piece, hits = following, next_hits
        self.evidence.end = self._base
        if self._own is None or self._own[1] > self._base:
            self._note_end(b"".join(end)[-KEPT:])
            if before and not before.endswith(b"\n"):
                self.evidence.lines += 1
        return self.evidence

    def _note_end(self, end: bytes) -> None:
        """Note the last lines that say that something failed, the first of them first, and the course of the
        log; that is asked only where something was found, here or in an earlier part."""
        begin = self._base - len(end)
        window = Window(end, begin)
        for start, stop in reversed(tuple(find_last_words(end))):
            number = self.evidence.lines - count_line_ends(end[start:]) + 1
            place = WindowLine(window, start, stop, number)
            if place.is_quotation or (place.is_mild and not is_mild(place.text)):
                continue  # of a traceback that Python ignored, or of what only shows something
            self.evidence.note_mark(_WORDS, place.to_log_line(self._rank, self._year))
        part = self._own is not None
        if part or self.evidence.matches or self.evidence.marks:
            lines = self.evidence.lines - end.count(b"\n")
            first = 0 if part else self.evidence.first
            self.evidence.outline = outline_of(end, begin, lines, self._head, first)

    def _find_hits(self, piece: bytes, following: bytes) -> list[Hit]:
        """The hits that end in the following piece; that there are very many costs time too."""
        begun = time.process_time()
        hits = self._matcher.find(following) if following else []
        if piece and following:
            seam = piece[-_SEAM:]
            across = self._matcher.find(seam + following[:_SEAM])
            hits += [(number, end - len(seam)) for number, end in across if end > len(seam)]
        # More than one hit in 512 bytes.
        if len(hits) > len(following) >> 9:
            self._spent += time.process_time() - begun
        return hits

    def _judge_piece(self, before: bytes, piece: bytes, following: bytes, hits: list[Hit]) -> None:
        """Judge every line of a piece in which a literal was found, and count all lines."""
        first, last = 0, len(piece)  # where what is ours of it begins and ends
        if self._own is not None:
            first, last = (min(max(at - self._base, 0), len(piece)) for at in self._own)
        counted, lines = first, self.evidence.lines
        if hits:
            ends = [end for _number, end in hits]
            # Most of the time all is far from the ends of the piece, and nothing has to be put together.
            ahead = before[-CONTEXT:] if min(ends) < CONTEXT else b""
            behind = following[:CONTEXT] if max(ends) > len(piece) - CONTEXT else b""
            window = Window(ahead + piece + behind if ahead or behind else piece, self._base - len(ahead))
            for start, end, numbers in self._in_time(_group_by_line(window, hits, len(ahead))):
                if self._own is not None and not self._own[0] <= window.base + start < self._own[1]:
                    continue
                here = max(counted, start - len(ahead))
                lines += count_line_ends(piece[counted:here])
                counted = here
                self._judge_line(WindowLine(window, start, end, lines + 1), frozenset(numbers))
            # Of what was only counted the last lines are noted: where it was last decides whether the job
            # outlived it.
            for owner, places in self._last.items():
                for place in places:
                    log_line = place.to_plain_log_line(self._rank)
                    if owner >= 0:
                        self.evidence.matches[owner].note_end(log_line)
                    elif not log_line.is_mild:
                        self.evidence.note_mark(~owner, log_line)
                        self.evidence.counts[~owner] -= 1  # it was counted
            self._last.clear()
        self.evidence.lines = lines + count_line_ends(piece[counted:last])

    def _in_time(self, lines: Iterator[T]) -> Iterator[T]:
        """The lines, until the time for them is over: then the answer says so."""
        begun, spent = time.process_time(), self._spent
        over = spent > self._judging  # before: what comes now is the end of the log
        for number, line in enumerate(lines):
            yield line
            if number % _GLANCE == _GLANCE - 1:
                self._spent = spent + time.process_time() - begun
                if self._spent > self._judging + over or time.monotonic() > self._until:
                    break
        self._spent = spent + time.process_time() - begun
        if self._spent > self._judging and not self.evidence.problem:
            self.evidence.problem = _(
                "has more lines that look like errors than can be examined in {seconds:g} s",
                seconds=self._judging,
            )

    def _judge_line(self, place: WindowLine, numbers: frozenset[int]) -> None:
        """Judge one line by the needles whose literals are in it, unless enough of its kind were judged: then
        the same is found in it as in all of them, and it is only counted."""
        rank = place.rank(self._rank)
        owners = self._kinds.known_owners(numbers)
        if owners is not None and rank in self._ranks:
            for owner in owners:
                if owner < 0:
                    self.evidence.counts[~owner] = self.evidence.counts.get(~owner, 0) + 1
                    self._last.setdefault(owner, deque(maxlen=SHOWN)).append(place)
                elif owner in self.evidence.matches:
                    self.evidence.matches[owner].count += 1
                    self._last.setdefault(owner, deque(maxlen=1)).append(place)
            return
        self._ranks.add(rank)
        if numbers not in self._needles_by_numbers:
            owned = {needle for number in numbers for needle in self._matcher.owners[number]}
            self._needles_by_numbers[numbers] = [self._table.needles[needle] for needle in sorted(owned)]
        done: set[tuple[int, int]] = set()
        alone = True
        for needle in self._needles_by_numbers[numbers]:
            key = (needle.owner, needle.role)
            # What only has to be in the file somewhere is looked for once.
            if key in done or (needle.role and key in self.evidence.aside):
                continue
            where = place.match_pattern(needle.pattern)
            if where is not None and not place.is_quotation:
                done.add(key)
                alone = alone and where is place
                # Another line of the same message may have led to it already.
                offsets = self._offsets.setdefault(key, [])
                if where.offset not in offsets:
                    offsets.append(where.offset)
                    del offsets[: -2 * UNIT_LINES]
                    self._note(needle, where)
        # Nothing is said of its kind where other lines had a say in it.
        self._kinds.note(numbers, frozenset(owner for owner, role in done if not role) if alone else None)

    def _note(self, needle: Needle, place: WindowLine) -> None:
        if needle.role:
            self.evidence.aside.add((needle.owner, needle.role))
            return
        if needle.owner < 0:
            index = ~needle.owner
            if (place.is_mild and MARKS[index].name not in ENDED) or is_harmless(place.text):
                return
            # Of a flood of errors the first few are shown; of the rest it counts where they are.
            full = self.evidence.counts.get(index, 0) < SHOWN
            log_line = (
                place.to_log_line(self._rank, self._year) if full else place.to_plain_log_line(self._rank)
            )
            self.evidence.note_mark(index, log_line)
            if MARKS[index].name == "launcher" and "Root Cause" in place.text and self.evidence.root is None:
                matches = map(_ROOT.match, place.lines_after(8))
                self.evidence.root = next((int(match[1]) for match in matches if match), None)
            return
        match = self.evidence.matches.get(needle.owner)
        signature = self._table.signatures[needle.owner]
        proven = match is not None and match.count >= _PROVEN and signature.within > 1
        if proven or place.has_context(signature):
            match = self.evidence.matches.setdefault(needle.owner, SignatureMatch())
            # What is known already is kept without the lines around it.
            earlier = match.ranks.get(place.rank(self._rank))
            full = earlier is None or (earlier.is_mild and not place.is_mild)
            match.add(
                place.to_log_line(self._rank, self._year) if full else place.to_plain_log_line(self._rank)
            )


def _group_by_line(window: Window, hits: list[Hit], shift: int) -> Iterator[tuple[int, int, set[int]]]:
    """The lines in which literals end, in order, and which literals."""
    start, end = 0, -1
    numbers: set[int] = set()
    for at, number in sorted((last - 1 + shift, number) for number, last in hits):
        if not start <= at < end:
            if numbers:
                yield start, end, numbers
            (start, end), numbers = window.line(at), set()
        numbers.add(number)
    if numbers:
        yield start, end, numbers


def count_line_ends(piece: bytes) -> int:
    """How many lines end in a piece. `count` looks at byte after byte; what takes them out jumps from one to
    the next, which is sooner where lines are as long as in most logs."""
    if piece.count(b"\n", 0, _LOOK) * _LONG > _LOOK:
        return piece.count(b"\n")
    return len(piece) - len(piece.replace(b"\n", b""))


def _batches(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, small ones put together: what is around a line is looked for in its neighbours."""
    held: list[bytes] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= _LEAST:
            yield held[0] if len(held) == 1 else b"".join(held)
            held = []
    if any(held):
        yield b"".join(held)
