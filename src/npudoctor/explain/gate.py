"""A quicker look before the real one, for much data: most of a log has nothing of what is looked for.

A few short pieces are chosen, so that whatever a needle matches contains one of them and, where that can be
had, none is in a sample of the logs at hand. Where a block has no such piece, nothing can be found; where it
has one, the lines around are looked at in full.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

from npudoctor.explain.cache import Cache
from npudoctor.explain.fast import Expression, Fast, compiled, noted
from npudoctor.explain.matching import Hit, spellings
from npudoctor.explain.table import Chain, Table
from npudoctor.explain.walk import Log

WORTH = 96 << 20  # with less data, choosing takes longer than it saves
_SIZE = 6  # bytes of a piece
_AROUND = 4 << 10  # what is looked at in full on both sides of one
_DENSE = 8 << 10  # with more than one piece in so many bytes, looking twice saves nothing
_SPARSE = 16 << 10  # a gate suits when its pieces are no more frequent
_SAMPLES, _SAMPLE = 8, 32 << 10


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


def gated(full: Fast, table: Table, logs: Sequence[Log], cache: Optional[Cache]) -> Gated:
    """The matcher with a gate that suits these logs; the one of the last time, if it does."""
    sample = sampled(logs).lower()
    name = f"gate-{full.key}.json" if cache else ""
    kept = cache.get(name) if cache else None
    if kept is not None:
        gate = _compiled([text.encode("latin-1") for text in json.loads(kept)])
        seen: list[Hit] = []
        gate.scan(sample, noted, context=seen)
        if len(seen) <= 1 + len(sample) // _SPARSE:
            return Gated(full, gate)
    pieces = sorted(pieces_of(table, sample))
    if cache:
        cache.put(name, json.dumps([piece.decode("latin-1") for piece in pieces]).encode())
    return Gated(full, _compiled(pieces))


def _compiled(pieces: Sequence[bytes]) -> Any:
    return compiled([Expression(number, True, ((piece,),)) for number, piece in enumerate(pieces)])


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
    common = _grams(sample)
    todo = {grams for chain in table.chains for grams in _known_by(chain, common, sample)}
    return set(_cover(todo))


def _cover(todo: set[frozenset[bytes]]) -> Iterator[bytes]:
    """Few pieces, so that one of each set is among them: always the one that is in most of those left."""
    holders: dict[bytes, set[frozenset[bytes]]] = {}
    for grams in todo:
        for gram in grams:
            holders.setdefault(gram, set()).add(grams)
    heap = [(-len(sets), gram) for gram, sets in holders.items()]
    heapq.heapify(heap)
    left = set(todo)
    while left:
        count, gram = heapq.heappop(heap)
        now = len(holders[gram] & left)
        if now == -count:
            yield gram
            left -= holders[gram]
        elif now:
            heapq.heappush(heap, (-now, gram))


def _known_by(chain: Chain, common: frozenset[bytes], sample: bytes) -> list[frozenset[bytes]]:
    """Of each text of its rarest link, the pieces that are rare here; all of them where none is."""
    links = []
    for link in chain.links:
        texts = [text.lower() for _number, text, _caseless in spellings(link)]
        rare = [_rare(text, common, sample) for text in texts]
        known = [one or _grams(text) for one, text in zip(rare, texts)]
        links.append((all(rare), min(_SIZE, min(map(len, texts))), -len(texts), known))
    return max(links, key=lambda link: link[:3])[3]


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
