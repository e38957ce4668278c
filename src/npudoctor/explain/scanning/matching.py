"""Finding many literals in a block of bytes: with hyperscan where it is installed, else with `re`; in little
with neither, which takes less time than to make them ready.

Neither decides anything: each names lines in which a needle may be, and misses none in which it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Callable, Optional, Protocol, Union

from npudoctor.explain.signatures.patterns import Text, spellings
from npudoctor.explain.signatures.table import SignatureTable

Hit = tuple[int, int]  # what was found, and where it ends
# A node of the tree of all literals: what follows by the next byte, and under -1 that one ends here.
_Tree = dict[int, Union["_Tree", int]]
_START = 4  # bytes by which a text is known; those of a site that are fewer in GB 18030 by what they have
_LITTLE = 64 << 10  # bytes


class Matcher(Protocol):
    """What looks for the needles of a table in blocks of bytes."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def owners(self) -> Sequence[Sequence[int]]:
        """The needles of each number that it finds."""

    def find(self, block: bytes) -> list[Hit]:
        """The hits in a block, in no certain order."""


class LazyMatcher:
    """The matcher for what may be little, as most failures are that somebody asks about: the one for much,
    which takes a fifth of a second to be made, is made when so much has come."""

    def __init__(self, table: SignatureTable, make: Callable[[], Matcher]) -> None:
        self._table, self._make = table, make
        self._left = _LITTLE
        self._by_start: dict[bytes, list[Text]] = {}
        self._whole: Optional[Matcher] = None

    @property
    def name(self) -> str:
        """What finds most."""
        return self.whole().name

    @property
    def owners(self) -> Sequence[Sequence[int]]:
        """The needles of each number; the same of both."""
        return self._table.owners if self._whole is None else self._whole.owners

    def whole(self) -> Matcher:
        """The one for much."""
        if self._whole is None:
            self._whole = self._make()
        return self._whole

    def find(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        self._left -= len(block)
        if self._left < 0:
            return self.whole().find(block)
        if not self._by_start:
            for text in spellings(self._table.literals):
                start = text[1][:_START].lower() if len(text[1]) >= _START else b""
                self._by_start.setdefault(start, []).append(text)
        lower = block.lower()
        # All pieces of the block of this length: most literals begin with none of them.
        starts = {lower[at : at + _START] for at in range(len(lower) + 1)}  # b"" is its end
        return find_occurrences(
            block, (text for start in self._by_start.keys() & starts for text in self._by_start[start])
        )


def find_occurrences(block: bytes, texts: Iterable[Text]) -> list[Hit]:
    """Where each of the texts is in a block."""
    hits: list[Hit] = []
    lower = block.lower()
    for number, text, caseless in texts:
        where, text = (lower, text.lower()) if caseless else (block, text)
        at = where.find(text)
        while at >= 0:
            hits.append((number, at + len(text)))
            at = where.find(text, at + 1)
    return hits


class RegexMatcher:
    """The matcher that is always there: one regular expression, the tree of all literals, finds where one
    begins; which ones they are is asked only there."""

    name = "re"

    def __init__(self, table: SignatureTable) -> None:
        self.owners = table.owners
        self._groups = []
        literals = spellings(table.literals)
        for caseless in (False, True):
            texts = [
                (number, text.lower() if caseless else text)
                for number, text, any_case in literals
                if any_case is caseless
            ]
            length = min([_START, *(len(text) for _number, text in texts)])
            by_start: dict[bytes, list[tuple[int, bytes]]] = {}
            for number, text in texts:
                by_start.setdefault(text[:length], []).append((number, text))
            if texts:
                self._groups.append((caseless, _compile_beginnings(texts), length, by_start))

    def find(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        hits: list[Hit] = []
        for caseless, begins, length, by_start in self._groups:
            text = block.lower() if caseless else block
            at = 0
            while match := begins.search(text, at):
                at = match.start()
                for number, literal in by_start[text[at : at + length]]:
                    if text.startswith(literal, at):
                        hits.append((number, at + len(literal)))
                at += 1
        return hits


def _compile_beginnings(texts: Sequence[tuple[int, bytes]]) -> re.Pattern[bytes]:
    tree: _Tree = {}
    for _number, text in texts:
        node = tree
        for byte in text:
            if -1 in node:
                break  # a shorter one ends here: that is enough to stop and look
            node = node.setdefault(byte, {})  # type: ignore[assignment]
        else:
            node.clear()
            node[-1] = 1
    return re.compile(_expression(tree), re.DOTALL)


def _expression(node: _Tree) -> bytes:
    if -1 in node:
        return b""
    ways = [re.escape(bytes([byte])) + _expression(below) for byte, below in node.items()]  # type: ignore[arg-type]
    return ways[0] if len(ways) == 1 else b"(?:" + b"|".join(ways) + b")"
