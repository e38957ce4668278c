"""Where the value behind a name ends: quoted at any depth, or bare up to what surely is no part of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.core.redact.names import Weight, looks_secret

# Prefixes of Python's literals: b"", r"", f"".
_OPENING = pattern(r"[bBrRuUfF]{0,2}(\\{0,7})([\"'`])")
# The lookbehind lets a run of backslashes be tried once, not once for each of them.
_CLOSING = {quote: pattern(rf"(?<!\\)(\\*){quote}") for quote in "\"'`"}
_NEXT = r"[\w.-]{1,100}\\{0,7}[\"']?\s?[=:]"
# What ends a bare value: a separator that is followed by a blank or another name, a closing quote, a tag. A
# comma inside stays, as passwords have commas.
_CUT = rf"[,;&](?=\s|\Z|{_NEXT}|[\"'])|&&|\\n(?={_NEXT})|\\{{0,7}}[\"'](?=[\s,;:)\]}}\\]|\Z)|[，。；]|</"
_BARE = pattern(rf"(?:(?!{_CUT})(?:\\[^\n]|[^\s\\]))+")
_PROBE = 96  # characters of a bare value that say whether it is one to hide
_LIST = pattern(r"[\[(]{1,2}\s{0,4}([bBrRuU]?\\{0,7}[\"'](?![\"']|\*\*\*)[^\n\])]{1,8192})")
_COMMENT = pattern(r"\s#")
_BRACKETS = {"{": "}", "[": "]", "(": ")"}


class Values:
    """Finds where values end in one text.

    It remembers which quotes are nowhere closed, so that the whole search stays linear.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._unclosed: set[tuple[int, str]] = set()

    def find_each(self, places: Iterable[tuple[int, Weight]]) -> Iterator[tuple[int, int]]:
        """Yield the values at these places that are to be hidden; a place inside the one before is passed
        over.
        """
        last = (0, 0)
        for at, name_weight in places:
            span = None if last[0] <= at < last[1] else self.find_hidden(at, name_weight)
            if span:
                last = span
                yield span

    def find_hidden(
        self, at: int, name_weight: Weight, whole_line: bool = False
    ) -> Optional[tuple[int, int]]:
        """(first, last+1) of the value at a place, without its quotes; None if it is not to be hidden under
        such a name.
        """
        opening = _OPENING.match(self._text, at)
        listed = _LIST.match(self._text, at)
        if listed and name_weight in (Weight.SECRET, Weight.TOKEN):
            return listed.start(1), listed.end()
        if opening:
            span: Optional[tuple[int, int]] = self._read_quoted(opening)
        elif whole_line:
            span = self._read_line(at)
        else:
            span = self._read_bare(at, at + _PROBE)
        if span is None or not looks_secret(self._text[span[0] : span[1]], name_weight):
            return None
        # What looks like one to the end of the probe is hidden to its own end.
        long = not opening and not whole_line and span[1] - at > _PROBE // 2
        return self._read_bare(at, len(self._text)) if long else span

    def _read_quoted(self, opening: re.Match[str]) -> tuple[int, int]:
        depth, quote, at = len(opening[1]), opening[2], opening.end()
        # Python's triple quotes.
        if self._text.startswith(quote * 2, at) and not depth:
            end = self._text.find(quote * 3, at + 2)
            return at + 2, self._find_line_end(at) if end < 0 else end
        # Searched in vain once: it is nowhere closed behind this place either.
        if (depth, quote) not in self._unclosed:
            for closing in _CLOSING[quote].finditer(self._text, at):
                # What encodes a text once more doubles its backslashes and adds one to each quote.
                if len(closing[1]) % (2 * (depth + 1)) == depth:
                    return at, closing.end() - depth - 1
            self._unclosed.add((depth, quote))
        return at, self._find_line_end(at)

    def _read_bare(self, at: int, most: int) -> Optional[tuple[int, int]]:
        if self._text[at : at + 1] in _BRACKETS:
            return None
        match = _BARE.match(self._text, at, most)
        value = match[0].rstrip(",;") if match else ""
        # f(password=x) ends in a bracket of the call; x)y has its own.
        while value and value[-1] in ")]}>" and value[-1] not in _open_brackets(value[:-1]):
            value = value[:-1]
        return (at, at + len(value)) if value else None

    def _read_line(self, at: int) -> Optional[tuple[int, int]]:
        """The whole line as one value, as YAML has it."""
        if self._text[at : at + 1] in (*_BRACKETS, "|", ">", ""):
            return self._read_bare(at, len(self._text))
        end = self._find_line_end(at)
        comment = _COMMENT.search(self._text, at, end)
        value = self._text[at : comment.start() if comment else end].rstrip(" \t\r,;")
        return (at, at + len(value)) if value else None

    def _find_line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end


def _open_brackets(value: str) -> str:
    """The brackets that close what is still open in a value."""
    return "".join(close for begin, close in _BRACKETS.items() if value.count(begin) > value.count(close))
