"""Literals found with hyperscan, a multi-pattern engine.

Its database is compiled in memory at each start, as it holds for one release and one kind of CPU: texts alone
take a twentieth of a second, where expressions (`failed.*driver`) would take most of one. Instead, what turns
out to be everywhere in the logs at hand is replaced by another part of the same needles.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

from npudoctor.core.optional import load
from npudoctor.explain.scanning.matching import Hit
from npudoctor.explain.signatures.patterns import Literal, Text, spellings
from npudoctor.explain.signatures.table import SignatureTable

if TYPE_CHECKING:
    from npudoctor.explain.signatures.pieces import Sample

Has = Callable[[bytes], bool]  # whether a text in small letters is in what was looked at
_DEAR = 4000  # to judge so many hits takes as long as to compile again
_OFTEN = 16 << 10  # a text that is there more than once in so many bytes is no sign of anything


class HyperscanMatcher:
    """The matcher that uses hyperscan. A number, once given, keeps its meaning: hits may be judged later."""

    name = "hyperscan"

    def __init__(self, table: SignatureTable) -> None:
        self.owners: list[tuple[int, ...]] = list(table.owners)
        self._own_texts = len(self.owners)  # numbers from here on are of texts that replace others
        self._links = table.links
        self._texts = spellings(table.literals)
        self._database: Any = None
        self._dear, self._hits, self._replaced = _DEAR, 0, set[int]()

    def compile(self) -> None:
        """Compile what is looked for: once, before processes are started that would each do so."""
        if self._database is None:
            self._database = compile_texts(self._texts)

    def find(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        self.compile()
        hits: list[Hit] = []
        self._database.scan(block, collect, context=hits)
        self._hits += len(hits)
        if self._hits >= self._dear:
            self._hits, self._dear = 0, 2 * self._dear
            most, lower = 1 + len(block) // _OFTEN, block.lower()
            counts = Counter(number for number, _end in hits)
            self._replace({number for number, count in counts.items() if count > most}, lower.__contains__)
        return hits

    def adapt_to(self, sample: Sample) -> None:
        """Look for what is not in a sample of the logs."""
        frequent = {number for number, text, _caseless in self._texts if sample.has(text.lower())}
        self._replace(frequent, sample.has)

    def _replace(self, frequent: Collection[int], has: Has) -> None:
        """Look for another part of the needles whose literals are so frequent."""
        instead: dict[Literal, list[int]] = {}
        for needle in sorted({needle for number in frequent for needle in self.owners[number]}):
            if needle in self._replaced:  # twice would say that the logs have everything
                continue
            # A part that every match of it has and these logs have not, if there is one.
            for link in self._links[needle]:
                if not any(has(text.lower()) for _number, text, _caseless in spellings(link)):
                    for literal in link:
                        instead.setdefault(literal, []).append(needle)
                    self._replaced.add(needle)
                    break
        if not instead:
            return
        first = len(self.owners)
        self.owners += [tuple(needles) for needles in instead.values()]
        # What took the place of another part before has only needles that were replaced, and has to stay.
        kept_texts = [
            text
            for text in self._texts
            if text[0] >= self._own_texts or not self._replaced.issuperset(self.owners[text[0]])
        ]
        self._texts = kept_texts + [
            (first + at, text, caseless) for at, text, caseless in spellings(tuple(instead))
        ]
        self._database = None


def collect(number: int, _start: int, end: int, _flags: int, hits: list[Hit]) -> None:
    """What hyperscan calls for each hit."""
    hits.append((number, end))


def make_hyperscan_matcher(table: SignatureTable) -> Optional[HyperscanMatcher]:
    """The matcher for a table; None where hyperscan is not installed or does not run on this CPU."""
    # Without SSSE3, or with a library of another build, the other engine says the same.
    with contextlib.suppress(Exception):
        hits: list[Hit] = []
        compile_texts([(1, b"ab", False), (2, b"cd", True)]).scan(b"ab CD", collect, context=hits)
        # A library that loads but answers wrongly is not used either.
        if sorted(hits) == [(1, 2), (2, 5)]:
            return HyperscanMatcher(table)
    return None


def compile_texts(texts: Sequence[Text]) -> Any:
    """A database for these texts."""
    hyperscan = load("hyperscan")
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[text for _number, text, _caseless in texts],
        ids=[number for number, _text, _caseless in texts],
        elements=len(texts),
        flags=[hyperscan.HS_FLAG_CASELESS if caseless else 0 for _number, _text, caseless in texts],
        literal=True,
    )
    return database
