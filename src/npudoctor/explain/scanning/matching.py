"""Finding many literals in a block of bytes: with hyperscan where it is installed, else with `re`.

Neither decides anything: each names lines in which a needle may be, and misses none in which it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, Union

from npudoctor.explain.signatures.patterns import spellings
from npudoctor.explain.signatures.table import Table

Hit = tuple[int, int]  # what was found, and where it ends
# A node of the tree of all literals: what follows by the next byte, and under -1 that one ends here.
_Tree = dict[int, Union["_Tree", int]]


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


class Plain:
    """The matcher that is always there: one regular expression, the tree of all literals, finds where one
    begins; which ones they are is asked only there."""

    name = "re"

    def __init__(self, table: Table) -> None:
        self.owners = table.owners
        self._groups = []
        literals = spellings(table.literals)
        for caseless in (False, True):
            texts = [
                (number, text.lower() if caseless else text)
                for number, text, any_case in literals
                if any_case is caseless
            ]
            by_start: dict[bytes, list[tuple[int, bytes]]] = {}
            for number, text in texts:
                by_start.setdefault(text[:4], []).append((number, text))
            if texts:
                self._groups.append((caseless, _begins(texts), by_start))

    def find(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        hits: list[Hit] = []
        for caseless, begins, by_start in self._groups:
            text = block.lower() if caseless else block
            at = 0
            while match := begins.search(text, at):
                at = match.start()
                for number, literal in by_start[text[at : at + 4]]:
                    if text.startswith(literal, at):
                        hits.append((number, at + len(literal)))
                at += 1
        return hits


def _begins(texts: Sequence[tuple[int, bytes]]) -> re.Pattern[bytes]:
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
