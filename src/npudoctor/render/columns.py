"""Lays text out in terminal columns, where a Chinese character takes two."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from npudoctor.core.lazy import pattern
from npudoctor.render.printable import printable

WIDTH = 80  # of a file, a pipe, and wherever nobody says otherwise
NARROWEST, WIDEST = 40, 120  # in longer lines the eye loses its place

_room = WIDTH

# Where a line may be broken: after a run of blanks, and before each wide character that may begin a line. A
# class of such ranges takes 2 ms to compile, so what is plain English has a pattern of its own.
_WORDS = pattern(r"\s+|\S+")
_BREAKS = pattern(r"(\s+|[⺀-〿㐀-鿿豈-﫿＀-￯])")
_NEVER_FIRST = frozenset("、。，．：；？！）》」』】”’…—,.;:)")
_NEVER_LAST = frozenset("（《「『【“‘")


def set_room(columns: int) -> None:
    """How wide the reader's terminal is; the choice holds for the whole process."""
    global _room
    _room = max(NARROWEST, min(columns, WIDEST))


def room() -> int:
    """How many columns a line may take."""
    return _room


def width(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
        if not unicodedata.combining(char)
    )


def pad(text: str, columns: int) -> str:
    """The text, filled up with blanks."""
    return text + " " * (columns - width(text))


def shorten(line: str) -> str:
    """The line, its end replaced by dots where the reader's are shorter."""
    if width(line) <= _room:
        return line
    columns = 0
    for number, char in enumerate(line):
        columns += width(char)
        if columns > _room - 3:
            return f"{line[:number].rstrip()}..."
    return line


def beside(head: str, text: str) -> str:
    """A text behind what announces it: a wide colon brings its own blank."""
    return f"{head}{text}" if head.endswith("：") else f"{head} {text}"


def paragraph(text: str, first: str, rest: str) -> list[str]:
    """The text made printable and broken into lines; `first` and `rest` stand before them.

    A line break in it is spelled out too: a name with one must not look like a line of ours.
    """
    lines = wrap(printable(text), _room - width(rest), width(first) - width(rest))
    return [(first if number == 0 else rest) + line for number, line in enumerate(lines)]


def wrap(text: str, columns: int, ahead: int = 0) -> Iterator[str]:
    """The lines of this many columns; the first has `ahead` less than the others, or more where that is
    negative."""
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
    """What must stay together: words, single wide characters, punctuation with what it follows."""
    held = ""
    for piece in _WORDS.findall(text) if text.isascii() else filter(None, _BREAKS.split(text)):
        if held and piece[0] not in _NEVER_FIRST and held[-1] not in _NEVER_LAST:
            yield held
            held = ""
        held += piece
    if held:
        yield held
