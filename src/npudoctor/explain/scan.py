"""One pass over the bytes of a log: what is found is judged line by line, with the lines around at hand."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Optional

from npudoctor.explain import ranks
from npudoctor.explain.evidence import SHOWN, Evidence, Found, Seen
from npudoctor.explain.failures import MARKS
from npudoctor.explain.matching import Hit, Matcher
from npudoctor.explain.place import Place
from npudoctor.explain.recognise import UNIT_LINES
from npudoctor.explain.table import Needle, Table
from npudoctor.explain.window import Window

CONTEXT = 64 << 10  # what lies around a piece and is at hand when it is judged
TAIL = 16 << 10  # the end of a log, which tells how it went
_LEAST = 256 << 10  # smaller pieces are put together
_SEAM = 8 << 10  # longer than any line that is looked at as a whole
_PROVEN = 500  # found so often, it is no longer asked what is near
_ROOT = re.compile(r"^[ \t]*rank[ \t]*: (\d{1,6})\b")


class Scan:
    """One pass over a file, or over the part `own` of it: what lies around that is context only."""

    def __init__(
        self,
        table: Table,
        matcher: Matcher,
        path: str,
        year: int,
        base: int = 0,
        own: Optional[tuple[int, int]] = None,
    ) -> None:
        self._table, self._matcher, self._year, self._own = table, matcher, year, own
        self._rank = ranks.of_path(path)
        self._base = base  # of the piece that is judged
        self._noted: dict[tuple[int, int], list[int]] = {}  # of each owner, where it was noted last
        self.evidence = Evidence(path)

    def of(self, pieces: Iterable[bytes]) -> Evidence:
        """What the pieces say; the first begins at `base`."""
        older, before, piece = b"", b"", b""
        hits: list[Hit] = []
        for following in itertools.chain(_sized(pieces), (b"",)):
            found = self._hits(piece, following)
            if piece:
                self._judge(before, piece, following, hits)
                self._base += len(piece)
                older, before = before, piece
            piece, hits = following, found
        self.evidence.end = self._base
        self.evidence.tail = (older[-TAIL:] + before)[-TAIL:]
        if (self._own is None or self._own[1] > self._base) and before and not before.endswith(b"\n"):
            self.evidence.lines += 1
        return self.evidence

    def _hits(self, piece: bytes, following: bytes) -> list[Hit]:
        """The hits that end in the following piece."""
        hits = self._matcher.found(following) if following else []
        if piece and following:
            seam = piece[-_SEAM:]
            across = self._matcher.found(seam + following[:_SEAM])
            hits += [(number, end - len(seam)) for number, end in across if end > len(seam)]
        return hits

    def _judge(self, before: bytes, piece: bytes, following: bytes, hits: list[Hit]) -> None:
        """Judge every line of a piece in which a literal was found, and count all lines."""
        first, last = self._mine(piece)
        counted, lines = first, self.evidence.lines
        if hits:
            ends = [end for _number, end in hits]
            # Most of the time all is far from the ends of the piece, and nothing has to be put together.
            ahead = before[-CONTEXT:] if min(ends) < CONTEXT else b""
            behind = following[:CONTEXT] if max(ends) > len(piece) - CONTEXT else b""
            window = Window(ahead + piece + behind if ahead or behind else piece, self._base - len(ahead))
            for start, end, numbers in _by_line(window, hits, len(ahead)):
                if not first <= start - len(ahead) < last and not (
                    start < len(ahead) and self._owned(window, start)
                ):
                    continue
                here = max(counted, start - len(ahead))
                lines += piece.count(b"\n", counted, here)
                counted = here
                self._line(Place(window, start, end, lines + 1), numbers)
        self.evidence.lines = lines + piece.count(b"\n", counted, last)

    def _mine(self, piece: bytes) -> tuple[int, int]:
        """Where what is ours of a piece begins and ends."""
        if self._own is None:
            return 0, len(piece)
        start, end = (min(max(at - self._base, 0), len(piece)) for at in self._own)
        return start, end

    def _owned(self, window: Window, start: int) -> bool:
        """Whether a line that begins before the piece is ours."""
        return self._own is None or self._own[0] <= window.base + start < self._own[1]

    def _line(self, place: Place, numbers: set[int]) -> None:
        """Judge one line by the needles whose literals are in it."""
        owners = self._matcher.owners
        needles = sorted({needle for number in numbers for needle in owners[number]})
        done: set[tuple[int, int]] = set()
        for needle in (self._table.needles[number] for number in needles):
            key = (needle.owner, needle.role)
            if key in done or not self._wanted(needle):
                continue
            where = place.says(needle.pattern)
            if where is not None:
                done.add(key)
                self._once(needle, where)

    def _once(self, needle: Needle, place: Place) -> None:
        """Note it, unless another line of the same message led to it already."""
        noted = self._noted.setdefault((needle.owner, needle.role), [])
        if place.offset not in noted:
            noted.append(place.offset)
            del noted[: -2 * UNIT_LINES]
            self._note(needle, place)

    def _wanted(self, needle: Needle) -> bool:
        """What only has to be in the file somewhere is looked for once."""
        return not needle.role or (needle.owner, needle.role) not in self.evidence.aside

    def _note(self, needle: Needle, place: Place) -> None:
        if needle.role:
            self.evidence.aside.add((needle.owner, needle.role))
        elif needle.owner < 0:
            self._mark(~needle.owner, place)
        else:
            found = self.evidence.found.get(needle.owner)
            known = found is not None and found.count >= _PROVEN
            if known or place.around(self._table.signatures[needle.owner]):
                found = self.evidence.found.setdefault(needle.owner, Found())
                found.add(self._seen(found.ranks, place))

    def _seen(self, known: dict[Optional[int], Seen], place: Place) -> Seen:
        """The line as it is kept; of what is known already only where it is."""
        rank = place.rank(self._rank)
        mine = known.get(rank)
        if mine is None or (mine.low and not place.low):
            return place.seen(self._rank, self._year)
        return Seen(place.number, place.offset, "", rank, low=place.low)

    def _mark(self, index: int, place: Place) -> None:
        if place.low:
            return
        # Of a flood of errors the first few are shown; of the rest it counts where they are.
        full = self.evidence.counts.get(index, 0) < SHOWN
        self.evidence.mark(index, place.seen(self._rank, self._year) if full else place.plain(self._rank))
        if MARKS[index].name == "launcher" and "Root Cause" in place.text and self.evidence.root is None:
            told = (_ROOT.match(line) for line in place.following(8))
            self.evidence.root = next((int(match[1]) for match in told if match), None)


def _by_line(window: Window, hits: list[Hit], shift: int) -> Iterator[tuple[int, int, set[int]]]:
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


def _sized(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, small ones put together: what is around a line is looked for in its neighbours."""
    held: list[bytes] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= _LEAST:
            yield held[0] if len(held) == 1 else b"".join(held)
            held = []
    if any(held):
        yield b"".join(held)
