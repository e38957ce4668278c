"""Lays text out in terminal columns, where a Chinese character takes two."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from npudoctor.core.lazy import pattern
from npudoctor.render.printable import printable

WIDTH = 80  # columns in a file or a pipe, and of a terminal that does not tell its width
NARROWEST, WIDEST = 40, 120  # longer lines are hard to read

_room = WIDTH

# A line may be broken after blanks, and before each wide character that may begin a line. Compiling a class
# of such ranges takes 2 ms, so that ASCII text has a pattern of its own.
_WORDS = pattern(r"\s+|\S+")
_BREAKS = pattern(r"(\s+|[⺀-〿㐀-鿿豈-﫿＀-￯])")
_NEVER_FIRST = frozenset("、。，．：；？！）》」』】”’…—,.;:)")
_NEVER_LAST = frozenset("（《「『【“‘")


def set_room(columns: int) -> None:
    """Set the width of lines for the whole process, in columns."""
    global _room
    _room = max(NARROWEST, min(columns, WIDEST))


def room() -> int:
    """The width of a line in columns."""
    return _room


def width(text: str) -> int:
    """The number of columns that a text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        # Wide and full width (UAX 11); ambiguous characters take one column in UTF-8 terminals by default.
        2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
        if not unicodedata.combining(char)
    )


def pad(text: str, columns: int) -> str:
    """The text, padded with blanks on the right to a number of columns."""
    return text + " " * (columns - width(text))


def shorten(line: str) -> str:
    """The line, with its end replaced by dots when it is wider than a line may be."""
    if width(line) <= _room:
        return line
    columns = 0
    for number, char in enumerate(line):
        columns += width(char)
        if columns > _room - 3:
            return f"{line[:number].rstrip()}..."
    return line


def join_head(head: str, text: str) -> str:
    """A text after its head, with a blank between; a full-width colon includes its own blank."""
    return f"{head}{text}" if head.endswith("：") else f"{head} {text}"


def paragraph(text: str, first: str, rest: str) -> list[str]:
    """Make a text printable and wrap it; `first` and `rest` are put before the first and the other lines.

    Line feeds in it are escaped: a file name with one must not look like a line of npudoctor.
    """
    lines = wrap(printable(text), _room - width(rest), width(first) - width(rest))
    return [(first if number == 0 else rest) + line for number, line in enumerate(lines)]


def wrap(text: str, columns: int, ahead: int = 0) -> Iterator[str]:
    """Yield the lines of a text, each of at most `columns` columns.

    The first line has `ahead` columns less than the others, or more when that is negative.
    """
    line, used = "", ahead
    for piece in _pieces(text):
        wide = width(piece)
        if line and used + width(piece.rstrip()) > columns:
            yield line.rstrip()
            line, used = "", 0
            if piece.isspace():
                continue
        line, used = line + piece, used + wide
    yield line.rstrip()


def _pieces(text: str) -> Iterator[str]:
    """Yield the pieces that must not be broken: words, wide characters, each with its punctuation."""
    pending = ""
    for piece in _WORDS.findall(text) if text.isascii() else filter(None, _BREAKS.split(text)):
        if pending and piece[0] not in _NEVER_FIRST and pending[-1] not in _NEVER_LAST:
            yield pending
            pending = ""
        pending += piece
    if pending:
        yield pending
