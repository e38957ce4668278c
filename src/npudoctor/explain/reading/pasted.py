"""Undoes what was done to a log on its way to us: HTML's entities, line ends that were spelled out, lines
that a terminal broke, what a scheduler put before the output of a task.

What is wrong with a log is seen in its first piece; of most nothing is, and they are handed on as they are.
Lines keep the numbers that they have in the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Callable, Optional

from npudoctor.core.frozen import replace
from npudoctor.core.lazy import pattern
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.scanning.window import decode

_SOFT, _JOINED = b"\n\x1f", b"\x1e"  # a line end that is none in the file; one of the file that is left out
_MARKED = pattern(_SOFT + b"|" + _JOINED)
_ENTITY = pattern(rb"&(?:quot|apos|lt|gt|amp|nbsp|#39|#34|#x27|#x22);")
_BREAK = pattern(rb"<br ?/?>(?!\n)|</(?:div|p|li)>(?=<(?:div|p|li)\b[^>\n]{0,80}>)")
# Airflow calls information whatever a task writes.
_TASK = pattern(
    rb"(?m)^\[[^\]\n]{10,40}\] \{(?:subprocess|logging_mixin|pod_manager|bash|docker)\.py:\d+\} "
    rb"(?:INFO|WARNING|ERROR) - (?:\[base\] )?"
)
_SPELLED = pattern(rb"(?m)^.*Traceback \(most recent call last\):\\n.*$")
_ESCAPE = pattern(rb"\\+([nrt\"'/])")
_PLAIN = {b"n": _SOFT, b"r": b"", b"t": b"\t"}
_PASTED = 4  # of so few lines, each with so many spelled-out ends, it was one text that somebody pasted
_NARROW, _WIDE, _LOOK = 40, 250, 64 << 10  # columns of a terminal; bytes by which it is told
_DIGITS = pattern(r"\d+")
_ALIKE, _LETTERS = 24, 8  # characters by which lines are alike; of fewer different ones a line is drawn
_SHARE = 20  # one line in so many is full at least, where a terminal broke them
# What begins a message: no line of a terminal was broken there.
_BEGINS = pattern(
    r"[\[(|#>*]|\s{2,}|\d{1,5}: |\d{2,4}[-/:]\d\d|[EWIF]\d{4} |Traceback "
    r"|(?:[A-Za-z_]\w*\.)*\w+(?:Error|Exception)\b|(?:ERROR|WARNING|INFO|DEBUG|FATAL|CRITICAL)\b|$"
)

Repair = Callable[[bytes], bytes]


class PastedLog:
    """The pieces of a log as it was written; `evidence` puts back the numbers of the lines."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._line = 1
        self._at: list[int] = []  # the lines behind which the numbers differ, and by how much
        self._by: list[int] = []

    def pieces(self) -> Iterator[bytes]:
        """All pieces, mended where the first shows that they need it."""
        first = next(self._pieces, b"")
        repairs = list(_repairs(first))
        if not repairs:
            yield first
            yield from self._pieces
            return
        for block in _whole_lines(first, self._pieces):
            for repair in repairs:
                block = repair(block)
            yield self._number_lines(block)

    def evidence(self, evidence: Evidence) -> Evidence:
        """The same with the numbers that the lines have in the file."""
        if self._at:
            evidence.renumber_lines(lambda log_line: replace(log_line, line=self._number(log_line.line)))
            evidence.lines = self._number(evidence.lines)
        return evidence

    def _number(self, line: int) -> int:
        index = bisect_right(self._at, line) - 1
        return line if index < 0 else line + self._by[index]

    def _number_lines(self, block: bytes) -> bytes:
        """The block without marks; where they were is noted."""
        by = self._by[-1] if self._by else 0
        done = 0
        for mark in _MARKED.finditer(block):
            soft = mark[0] == _SOFT
            self._line += block.count(b"\n", done, mark.end())
            by += -1 if soft else 1
            self._at.append(self._line if soft else self._line + 1)
            self._by.append(by)
            done = mark.end()
        self._line += block.count(b"\n", done)
        return block.replace(_SOFT, b"\n").replace(_JOINED, b"")


def _whole_lines(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces, each up to the end of a line."""
    held = first
    for piece in pieces:
        whole, end, held = (held + piece).rpartition(b"\n")
        if end:
            yield whole + end
    yield held


def _repairs(first: bytes) -> Iterator[Repair]:
    """What has to be done to a log that begins so."""
    if _ENTITY.search(first):
        import html  # its table of all characters is large, and hardly any log comes from a page

        blank = {b"&nbsp;": b" "}  # not as HTML has it, which no message has
        yield lambda block: _ENTITY.sub(
            lambda entity: blank.get(entity[0]) or html.unescape(entity[0].decode()).encode(), block
        )
    if _BREAK.search(first):
        yield lambda block: _BREAK.sub(_SOFT, block)
    if _TASK.search(first):
        yield lambda block: _TASK.sub(b"", block)
    if b"\\n" in first:
        few = first.count(b"\n") < _PASTED and first.count(b"\\n") >= _PASTED
        # Only a pasted text is unescaped as a whole; else only lines that hold a spelled-out traceback.
        yield _unescape if few else lambda block: _SPELLED.sub(lambda line: _unescape(line[0]), block)
    width = _width(first[:_LOOK])
    if width:
        yield lambda block: _join(block, width)


def _unescape(text: bytes) -> bytes:
    """A text in which line ends and quotation marks were spelled out, as in a string of JSON."""
    return _ESCAPE.sub(lambda escape: _PLAIN.get(escape[1], escape[1]), text)


def _width(start: bytes) -> Optional[int]:
    """How wide the terminal was that broke the lines of a text; None where none did."""
    lines = [decode(line) for line in start.split(b"\n")]
    lines = lines[:-1] if len(start) >= _LOOK else lines
    width = max(map(len, lines), default=0)
    if not _NARROW <= width <= _WIDE:
        return None
    full = [number for number, line in enumerate(lines) if len(line) == width]
    # Lines of a table, or of a job's progress, are all as long and alike, and say the same but for numbers.
    kinds = {_DIGITS.sub("0", lines[number])[:_ALIKE] for number in full}
    some = len(full) * _SHARE >= sum(map(bool, lines)) and 2 <= len(full) < 2 * len(kinds)
    if not some or any(len(set(lines[number])) < _LETTERS for number in full):
        return None
    broken = sum(_goes_on(lines, number) and not lines[number + 1][0].isupper() for number in full)
    return width if broken * 2 > len(full) else None


def _goes_on(lines: list[str], number: int) -> bool:
    """Whether the line after this full one may be its rest."""
    return number + 1 < len(lines) and not _BEGINS.match(lines[number + 1])


def _join(block: bytes, width: int) -> bytes:
    """The lines of a text that a terminal broke, put together."""
    lines = block.split(b"\n")
    texts = [decode(line) for line in lines]
    ends = (
        _JOINED if len(text) == width and _goes_on(texts, number) else b"\n"
        for number, text in enumerate(texts)
    )
    joined = b"".join(
        line.rstrip(b"\r") + end if end == _JOINED else line + end for line, end in zip(lines, ends)
    )
    return joined[:-1]
