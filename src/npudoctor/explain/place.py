"""One line of a log with what is around it, read only when somebody asks: most lines are soon done with."""

from __future__ import annotations

from functools import cached_property
from typing import Optional

from npudoctor.explain import levels, moments, ranks
from npudoctor.explain.evidence import Seen
from npudoctor.explain.recognise import UNIT_LINES, around, bare, compiled, head, shape, unit
from npudoctor.explain.signatures import Signature
from npudoctor.explain.window import Window, decoded

SHOWN = 2000  # characters of a line that are kept
_HANDLED = "During handling of the above exception, another exception occurred"
_CAUSE = "The above exception was the direct cause of the following exception"


class Place:
    """A line of a window, from `start` to `end`; `number` is its number in the file."""

    def __init__(self, window: Window, start: int, end: int, number: int) -> None:
        self._window = window
        self._outer = window.bounds(start)
        self.offset = window.base + start
        self.number = number
        self.text = decoded(window.data[start:end])

    def says(self, pattern: str) -> Optional[Place]:
        """The line, when the pattern matches it; the head of its message, when it matches that."""
        search = compiled(pattern).search
        if search(self.text):
            return self
        prefixed, alone = self._shape
        if prefixed and search(self._bare):
            return self
        if alone:
            return None
        message = self._message
        return self._headed(*message) if message is not None and search(message[1]) else None

    def around(self, signature: Signature) -> bool:
        """Whether what must be near is, and what must not be is not."""
        if not signature.within or not (signature.near or signature.without):
            return True
        before = self._window.before(self._outer[0], signature.within)
        after = self._window.after(self._outer[1], signature.within)
        return around(signature, [*before, self.text, *after], len(before))

    def seen(self, path_rank: Optional[int], year: int) -> Seen:
        """All that is worth to be kept of it."""
        before, after = self._neighbours
        lines = [*before, self.text, *after]
        ending = next((line for line in after[:9] if line.startswith((_HANDLED, _CAUSE, "Traceback"))), "")
        return Seen(
            self.number,
            self.offset,
            self.text.strip()[:SHOWN],
            self.rank(path_rank),
            moments.nearest(lines, len(before), year),
            self.low,
            ending.startswith(_HANDLED),
            ending.startswith(_CAUSE),
        )

    def plain(self, path_rank: Optional[int]) -> Seen:
        """What can be said of it without a look at the lines around."""
        text = self.text.strip()[:SHOWN]
        return Seen(self.number, self.offset, text, self.rank(path_rank), None, self.low)

    def rank(self, path_rank: Optional[int]) -> Optional[int]:
        """The rank that the line is from: as it says, else whose file it is."""
        told = ranks.of_line(self.text)
        return path_rank if told is None else told

    @cached_property
    def low(self) -> bool:
        """Whether the line calls itself a warning or information."""
        return levels.low(self.text)

    def following(self, count: int) -> list[str]:
        """The lines after it."""
        return self._window.after(self._outer[1], count)

    @cached_property
    def _neighbours(self) -> tuple[list[str], list[str]]:
        start, end = self._outer
        return self._window.before(start, UNIT_LINES), self._window.after(end, UNIT_LINES)

    @cached_property
    def _bare(self) -> str:
        return bare(self.text)

    @cached_property
    def _shape(self) -> tuple[bool, bool]:
        start, end = self._outer
        return shape(self._window.data, start, end + 1)

    @cached_property
    def _message(self) -> Optional[tuple[int, str]]:
        """How many lines before this one its message begins, and all of it; None when that cannot be told."""
        before, after = self._neighbours
        lines = [*before, self.text, *after]
        first = head(lines, len(before))
        return None if first is None else (len(before) - first, unit(lines, first))

    def _headed(self, lines: int, text: str) -> Place:
        """The line that is so many before this one, with the text of all of its message."""
        start = self._outer[0]
        for _line in range(lines):
            start = self._window.data.rfind(b"\n", 0, max(0, start - 1)) + 1
        place = Place(self._window, start, self._window.bounds(start)[1], self.number - lines)
        place.text = text
        return place
