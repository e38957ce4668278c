"""A quicker look before the real one, for much data: most of a log has nothing of what is looked for.

A few short pieces are chosen, so that whatever a needle matches contains one of them and, where that can be
had, none is in a sample of the logs at hand. Where a block has no such piece, nothing can be found; where it
has one, the lines around are asked for the needles that are known by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from npudoctor.explain.scanning.hyperscan_matcher import Fast, collect, compile_texts
from npudoctor.explain.scanning.matching import Hit, occurrences
from npudoctor.explain.signatures.patterns import spellings
from npudoctor.explain.signatures.pieces import SIZE, Sample, cover, known_by
from npudoctor.explain.signatures.table import Piece, Table

_AROUND = 4 << 10  # what is looked at on both sides of one
_DENSE = 8 << 10  # with more than one piece in so many bytes, looking twice saves nothing
_DEAR = 20_000  # to ask so many times for a needle takes as long as to compile all of them


class Gated:
    """A matcher that looks only where the gate saw something: for the needles of what it saw and, as soon as
    that was much, for all."""

    name = "hyperscan, gated"

    def __init__(self, full: Fast, table: Table, sample: Sample, gate: Mapping[Piece, Sequence[int]]) -> None:
        self.owners = full.owners
        self._full, self._sample, self._suited = full, sample, False
        self._needles = list(gate.values())
        self._gate = compile_texts([(number, text, caseless) for number, (text, caseless) in enumerate(gate)])
        self._texts = _texts(table)
        self._asked = 0

    def find(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        seen: list[Hit] = []
        self._gate.scan(block, collect, context=seen)
        if len(seen) > 1 + len(block) // _DENSE:
            return self._find_all(block)
        # What is looked at is around each place, what overlaps put together, for the pieces seen there.
        ranges: list[tuple[int, int, set[int]]] = []
        for place, piece in sorted((end, number) for number, end in seen):
            start, end = max(0, place - _AROUND), min(len(block), place + _AROUND)
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = ranges[-1][0], end, ranges[-1][2] | {piece}
            else:
                ranges.append((start, end, {piece}))
        hits: list[Hit] = []
        for start, end, pieces in ranges:
            hits += [(number, start + at) for number, at in self._some(block[start:end], pieces)]
        return hits

    def _find_all(self, block: bytes) -> list[Hit]:
        """All that is in a block; most logs never need what this compiles."""
        if not self._suited:
            self._full.suit(self._sample)
            self._suited = True
        return self._full.find(block)

    def _some(self, block: bytes, pieces: Iterable[int]) -> Iterable[Hit]:
        """What of the needles of these pieces is in a block."""
        if self._asked > _DEAR:
            return self._find_all(block)
        needles = {needle for piece in pieces for needle in self._needles[piece]}
        texts = {text for needle in needles for text in self._texts[needle]}
        self._asked += len(texts)
        return occurrences(block, texts)


def _texts(table: Table) -> list[list[tuple[int, bytes, bool]]]:
    """Of each needle the texts one of which is in every match."""
    texts: list[list[tuple[int, bytes, bool]]] = [[] for _needle in table.needles]
    for text in spellings(table.literals):
        for needle in table.owners[text[0]]:
            texts[needle].append(text)
    return texts


def gate_for(full: Fast, table: Table, sample: Sample) -> Gated:
    """The matcher with a gate that suits these logs: the pieces of the table that are not in a sample of
    them, and others for what these leave open."""
    # The sample knows its own pieces by heart; for shorter ones it is read once, and not once for each.
    short = [piece for piece in table.pieces if len(piece[0]) < SIZE]
    seen: list[Hit] = []
    if short:
        texts = [(number, text, caseless) for number, (text, caseless) in enumerate(short)]
        compile_texts(texts).scan(sample.text, collect, context=seen)
    there = {short[number] for number, _end in seen}
    good = frozenset(
        piece
        for piece in table.pieces
        if not (piece in there if len(piece[0]) < SIZE else sample.holds(*piece))
    )
    known = [frozenset(table.pieces[number] for number in numbers) for numbers in table.known_by]
    left = [needle for needle, pieces in enumerate(known) if not pieces or not good >= pieces]
    chosen = {needle: known_by(table.links[needle], sample) for needle in left}
    sets = {grams for sets_of in chosen.values() for grams in sets_of}
    gate: dict[Piece, list[int]] = {
        piece: [] for piece in (*sorted(good), *cover(grams for grams in sets if good.isdisjoint(grams)))
    }
    for needle, sets_of in chosen.items():
        known[needle] = frozenset().union(*sets_of) & gate.keys()
    for needle, pieces in enumerate(known):
        for piece in pieces:
            gate[piece].append(needle)
    return Gated(full, table, sample, gate)
