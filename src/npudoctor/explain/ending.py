"""How a log ends: whether what failed in it ended the job, or the job went on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Optional

from npudoctor.explain import levels
from npudoctor.explain.evidence import Evidence, Seen
from npudoctor.explain.failures import MARKS
from npudoctor.explain.window import decoded

_ENDS = ("level", "cann")  # these count only where they end a log: healthy jobs write errors too


class Ending:
    """What the last lines of a file say of what was found before."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._tail = evidence.end - len(evidence.tail)

    def survived(self, seen: Seen) -> bool:
        """Whether the job went on after this line."""
        return self._progress is not None and self._progress > seen.offset

    def failures(self) -> Iterator[tuple[str, Seen]]:
        """The signs of failure after which nothing went on, in the order of MARKS."""
        for index, marks in sorted(self._evidence.marks.items()):
            name = MARKS[index].name
            for seen in marks:
                if not self.survived(seen) and (name not in _ENDS or seen.offset >= self._tail):
                    yield name, seen

    @cached_property
    def _progress(self) -> Optional[int]:
        """The last place that says that the job went on; asked only where something was found."""
        found, at, bars = None, self._tail, _Bars()
        for raw in self._evidence.tail.split(b"\n"):
            for piece in raw.split(b"\r"):
                line = decoded(piece[:1000]) if len(piece) > 6 else ""
                if line and levels.progress(line):
                    bar = levels.bar(line)
                    place = at if bar is None else bars.moved(at, *bar)
                    found = found if place is None else place
                at += len(piece) + 1
        return found


class _Bars:
    """The progress bars of a log, told apart by where they end."""

    def __init__(self) -> None:
        self._far: dict[int, tuple[int, int]] = {}  # how far each came, and where in the log

    def moved(self, at: int, now: int, end: int) -> Optional[int]:
        """The place from which a bar went on; None while it stands still. A bar is drawn once more when its
        process ends, so that one says nothing until it moves again or is full."""
        before = self._far.get(end)
        anew = before is None or before[0] >= end  # a bar of this length begins once more
        if before is not None and (now == before[0] or (now < before[0] and not anew)):
            return None
        self._far[end] = (now, at)
        if now >= end:
            return at
        return None if before is None or anew else before[1]
