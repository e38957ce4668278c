"""The lines around a place in a block of bytes, as text; of a long line only a bounded piece is looked at."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.explain.scanning.reports import find_reports

LONG = 4096  # a longer line is looked at in pieces
_PIECE, _OVERLAP = 2048, 1024
_ESCAPES = pattern(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")


class Window:
    """A block, and where it begins in its file: the pieces of a long line lie the same in whichever block."""

    def __init__(self, data: bytes, base: int) -> None:
        self.data, self.base = data, base
        self._reports: Optional[list[tuple[int, int]]] = None

    def in_report(self, at: int) -> bool:
        """Whether a line is of a report of npudoctor."""
        if self._reports is None:
            self._reports = find_reports(self.data)
        last = bisect_right(self._reports, (at, len(self.data))) - 1
        return last >= 0 and at < self._reports[last][1]

    def bounds(self, at: int) -> tuple[int, int]:
        """Where the line around a place begins and ends; of a long one, the piece around it."""
        data = self.data
        piece = (self.base + at) // _PIECE * _PIECE - self.base
        # No line break within LONG bytes on either side: the line is looked at in fixed pieces of the file.
        low = max(0, at - LONG)
        start = data.rfind(b"\n", low, at) + 1
        if not start and low + self.base:
            start = max(low, piece - _OVERLAP)
        end = data.find(b"\n", at, at + LONG)
        if end < 0:
            end = len(data) if at + LONG >= len(data) else piece + _PIECE + _OVERLAP
        return start, end

    def line(self, at: int) -> tuple[int, int]:
        """The same, without what was overwritten on a terminal: a progress bar writes many to one line."""
        start, end = self.bounds(at)
        start = max(start, self.data.rfind(b"\r", start, at) + 1)
        overwritten = self.data.find(b"\r", at, end)
        return start, end if overwritten < 0 else overwritten

    def before(self, start: int, count: int) -> list[str]:
        """So many lines before the one that begins here, oldest first."""
        low = max(0, start - count * 1000, start - LONG * 16)
        lines = self.data[low : max(low, start - 1)].split(b"\n")[-count:] if start else []
        return [decode(line[-LONG:]) for line in lines]

    def after(self, end: int, count: int) -> list[str]:
        """So many lines after the one that ends here."""
        low = end + 1
        lines = self.data[low : min(low + count * 1000, low + LONG * 16)].split(b"\n")[:count]
        return [decode(line[:LONG]) for line in lines]


def decode(line: bytes) -> str:
    """A line as text, without colours: UTF-8, else as Chinese systems write, else each byte spelled out."""
    line = line.rstrip(b"\r")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode("utf-8", "backslashreplace")
        # Where most of it is UTF-8, a byte was broken or the line was cut: a bar of progress is no Chinese.
        utf8_text = line.decode("utf-8", "ignore")
        good = sum(len(char.encode()) for char in utf8_text if not char.isascii())
        if good < sum(byte > 127 for byte in line) - good:
            with contextlib.suppress(UnicodeDecodeError):
                text = line.decode("gb18030")
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def find_places(block: bytes, word: bytes) -> Iterator[int]:
    """Where a word is in a block."""
    at = block.find(word)
    while at >= 0:
        yield at
        at = block.find(word, at + 1)


def lines_with(block: bytes, word: bytes) -> Iterator[int]:
    """Where the lines begin in which a word is."""
    at = block.find(word)
    while at >= 0:
        yield block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        at = block.find(word, end) if end >= 0 else -1
