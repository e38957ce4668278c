"""Where a log says last that its job went on, or ended well: looked for from its end, as that is mostly
near."""

from __future__ import annotations

from typing import NamedTuple, Optional

from npudoctor.explain.scanning.window import decode, find_places, lines_with
from npudoctor.explain.signatures import progress

_CHUNK = 48 << 10  # so much is looked at at a time; a bar is followed within it
_LONG = 1000  # characters of a line that are looked at


class Advance(NamedTuple):
    """The last places that say that the job went on, in more than that it saved how far it came; and that it
    ended well; and that it served; None where none does."""

    progress: Optional[int] = None
    moved: Optional[int] = None
    success: Optional[int] = None
    served: Optional[int] = None


def last_advance(block: bytes, begin: int) -> Advance:
    """What the last chunk says in which anything is found; `begin` is where the block begins in its log."""
    end = len(block)
    while end > 0:
        start = max(0, end - _CHUNK)
        start = block.rfind(b"\n", 0, start) + 1 if start else 0
        advance = _find_advance(block[start:end], begin + start)
        if advance.progress is not None:
            return advance
        end = start
    return Advance()


def _find_advance(chunk: bytes, begin: int) -> Advance:
    bars = _Bars()
    last: Optional[int] = None
    moved: Optional[int] = None
    success: Optional[int] = None
    served: Optional[int] = None
    # A bar is redrawn behind a carriage return: each of its states counts as a line here.
    small = chunk.lower().replace(b"\r", b"\n")
    # The lines, and what was overwritten on a terminal, that are worth a look.
    starts = {start for word in progress.HINT for start in lines_with(small, word)}
    starts.update(start + 1 for start in find_places(small, b"\nok"))
    for start in sorted(starts):
        end = small.find(b"\n", start)
        end = min(len(chunk) if end < 0 else end, start + _LONG)
        at, line = begin + start, decode(chunk[start:end])
        if progress.succeeds(line):
            last = moved = success = at
        elif progress.goes_on(line):
            served = at if progress.serves(line) else served
            bar = progress.parse_bar(line)
            place = at if bar is None else bars.advance(at, *bar)
            if place is not None:
                last = moved = place
        elif progress.saves(line):
            last = at
    return Advance(last, moved, success, served)


class _Bars:
    """The progress bars of a log, told apart by where they end."""

    def __init__(self) -> None:
        self._far: dict[int, tuple[int, int]] = {}  # how far each came, and where in the log

    def advance(self, at: int, now: int, end: int) -> Optional[int]:
        """The place from which a bar went on; None while it stands still. A bar is drawn once more when its
        process ends, so that one says nothing until it moves again or is full."""
        before = self._far.get(end)
        again = before is None or before[0] >= end  # a bar of this length begins once more
        if before is not None and (now == before[0] or (now < before[0] and not again)):
            return None
        self._far[end] = (now, at)
        if now >= end:
            return at
        return None if before is None or again else before[1]
