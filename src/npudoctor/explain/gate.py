"""A quicker look before the real one, for much data: most of a log has nothing of what is looked for.

A few short pieces are chosen, so that whatever a needle matches contains one of them and, where that can be
had, none is in a sample of the logs at hand. Where a block has no such piece, nothing can be found; where it
has one, the lines around are looked at in full.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from npudoctor.explain.fast import Expression, Fast, compiled, noted
from npudoctor.explain.matching import Hit, spellings
from npudoctor.explain.table import Chain, Table
from npudoctor.explain.walk import Log

WORTH = 96 << 20  # with less data, choosing takes longer than it saves
_SIZE = 6  # bytes of a piece
_AROUND = 8 << 10  # what is looked at in full on both sides of one
_DENSE = 16 << 10  # with more than one piece in so many bytes, looking twice saves nothing
_SAMPLES, _SAMPLE = 6, 96 << 10


class Gated:
    """A matcher that looks in full only where the gate saw something."""

    name = "hyperscan, gated"

    def __init__(self, full: Fast, gate: Any) -> None:
        self.owners = full.owners
        self._full, self._gate = full, gate

    def found(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        seen: list[Hit] = []
        self._gate.scan(block, noted, context=seen)
        if len(seen) > 1 + len(block) // _DENSE:
            return self._full.found(block)
        hits: list[Hit] = []
        for start, end in _ranges(sorted(end for _number, end in seen), len(block)):
            hits += [(number, start + at) for number, at in self._full.found(block[start:end])]
        return hits


def gated(full: Fast, table: Table, logs: Sequence[Log]) -> Gated:
    """The matcher with a gate that suits these logs."""
    pieces = sorted(pieces_of(table, sampled(logs)))
    return Gated(
        full, compiled([Expression(number, True, ((piece,),)) for number, piece in enumerate(pieces)])
    )


def sampled(logs: Sequence[Log]) -> bytes:
    """What the largest logs look like, in their middle."""
    parts = []
    for log in sorted(logs, key=lambda log: -log.size)[:_SAMPLES]:
        with contextlib.suppress(OSError), open(log.path, "rb", buffering=0) as file:
            file.seek(log.size // 2, os.SEEK_SET)
            parts.append(file.read(_SAMPLE))
    return b"\n".join(parts)


def pieces_of(table: Table, sample: bytes) -> set[bytes]:
    """Short texts, in small letters, one of which is in everything that any needle matches."""
    sample = sample.lower()
    common = _grams(sample)
    todo = [grams for chain in table.chains for grams in _known_by(chain, common, sample)]
    weight = Counter(gram for grams in todo for gram in grams)
    chosen: set[bytes] = set()
    for grams in sorted(todo, key=len):
        if not grams & chosen:
            chosen.add(max(grams, key=lambda gram: (weight[gram], gram)))
    return chosen


def _known_by(chain: Chain, common: frozenset[bytes], sample: bytes) -> list[frozenset[bytes]]:
    """Of each text of its rarest link, the pieces that are rare here; all of them where none is."""
    links = []
    for link in chain.links:
        texts = [text.lower() for _number, text, _caseless in spellings(link)]
        rare = [_rare(text, common, sample) for text in texts]
        links.append(
            (all(rare), min(map(len, texts)), [one or _grams(text) for one, text in zip(rare, texts)])
        )
    return max(links, key=lambda link: link[:2])[2]


def _rare(text: bytes, common: frozenset[bytes], sample: bytes) -> frozenset[bytes]:
    """The pieces of a text that are not in the sample."""
    if len(text) < _SIZE:
        return frozenset() if text in sample else frozenset({text})
    return _grams(text) - common


def _grams(text: bytes) -> frozenset[bytes]:
    """All pieces of a text; a shorter text is its own."""
    return frozenset(text[at : at + _SIZE] for at in range(max(1, len(text) - _SIZE + 1)))


def _ranges(places: Iterable[int], size: int) -> list[tuple[int, int]]:
    """What is to be looked at in full: around each place, and what overlaps put together."""
    ranges: list[tuple[int, int]] = []
    for place in places:
        start, end = max(0, place - _AROUND), min(size, place + _AROUND)
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((start, end))
    return ranges
