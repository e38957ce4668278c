"""A quicker look before the real one, for much data: most of a log has nothing of what is looked for.

A few short pieces are chosen, so that whatever a needle matches contains one of them and, where that can be
had, none is in a sample of the logs at hand. Where a block has no such piece, nothing can be found; where it
has one, the lines around are asked for the needles that are known by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from npudoctor.explain.scanning.hyperscan_matcher import HyperscanMatcher, collect, compile_texts
from npudoctor.explain.scanning.matching import Hit, find_occurrences
from npudoctor.explain.signatures.patterns import spellings
from npudoctor.explain.signatures.pieces import SIZE, Sample, choose_cover, choose_pieces
from npudoctor.explain.signatures.table import Piece, SignatureTable

_AROUND = 4 << 10  # what is looked at on both sides of one
_DENSE = 8 << 10  # with more than one piece in so many bytes, looking twice saves nothing
_DEAR = 20_000  # to ask so many times for a needle takes as long as to compile all of them


class GatedMatcher:
    """A matcher that looks only where the gate saw something: for the needles of what it saw and, as soon as
    that was much, for all."""

    name = "hyperscan, gated"

    def __init__(
        self,
        full: HyperscanMatcher,
        table: SignatureTable,
        sample: Sample,
        gate: Mapping[Piece, Sequence[int]],
    ) -> None:
        self.owners = full.owners
        self._full, self._sample, self._suited = full, sample, False
        self._needles = list(gate.values())
        self._gate = compile_texts([(number, text, caseless) for number, (text, caseless) in enumerate(gate)])
        self._texts = _texts(table)
        self._asked = 0

    def find(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        gate_hits: list[Hit] = []
        self._gate.scan(block, collect, context=gate_hits)
        if len(gate_hits) > 1 + len(block) // _DENSE:
            return self._find_all(block)
        # What is looked at is around each place, what overlaps put together, for the pieces seen there.
        ranges: list[tuple[int, int, set[int]]] = []
        for place, piece in sorted((end, number) for number, end in gate_hits):
            start, end = max(0, place - _AROUND), min(len(block), place + _AROUND)
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = ranges[-1][0], end, ranges[-1][2] | {piece}
            else:
                ranges.append((start, end, {piece}))
        hits: list[Hit] = []
        for start, end, pieces in ranges:
            hits += [(number, start + at) for number, at in self._find_some(block[start:end], pieces)]
        return hits

    def _find_all(self, block: bytes) -> list[Hit]:
        """All that is in a block; most logs never need what this compiles."""
        if not self._suited:
            self._full.adapt_to(self._sample)
            self._suited = True
        return self._full.find(block)

    def _find_some(self, block: bytes, pieces: Iterable[int]) -> Iterable[Hit]:
        """What of the needles of these pieces is in a block."""
        if self._asked > _DEAR:
            return self._find_all(block)
        needles = {needle for piece in pieces for needle in self._needles[piece]}
        texts = {text for needle in needles for text in self._texts[needle]}
        self._asked += len(texts)
        return find_occurrences(block, texts)


def _texts(table: SignatureTable) -> list[list[tuple[int, bytes, bool]]]:
    """Of each needle the texts one of which is in every match."""
    texts: list[list[tuple[int, bytes, bool]]] = [[] for _needle in table.needles]
    for text in spellings(table.literals):
        for needle in table.owners[text[0]]:
            texts[needle].append(text)
    return texts


def make_gated_matcher(full: HyperscanMatcher, table: SignatureTable, sample: Sample) -> GatedMatcher:
    """The matcher with a gate that suits these logs: the pieces of the table that are not in a sample of
    them, and others for what these leave open."""
    # The sample knows its own pieces by heart; for shorter ones it is read once, and not once for each.
    short = [piece for piece in table.pieces if len(piece[0]) < SIZE]
    hits: list[Hit] = []
    if short:
        texts = [(number, text, caseless) for number, (text, caseless) in enumerate(short)]
        compile_texts(texts).scan(sample.text, collect, context=hits)
    present = {short[number] for number, _end in hits}
    good = frozenset(
        piece
        for piece in table.pieces
        if not (piece in present if len(piece[0]) < SIZE else sample.holds(*piece))
    )
    pieces_by_needle = [frozenset(table.pieces[number] for number in numbers) for numbers in table.known_by]
    open_needles = [
        needle for needle, pieces in enumerate(pieces_by_needle) if not pieces or not good >= pieces
    ]
    chosen = {needle: choose_pieces(table.links[needle], sample) for needle in open_needles}
    sets = {grams for sets_of in chosen.values() for grams in sets_of}
    gate: dict[Piece, list[int]] = {
        piece: []
        for piece in (*sorted(good), *choose_cover(grams for grams in sets if good.isdisjoint(grams)))
    }
    for needle, sets_of in chosen.items():
        pieces_by_needle[needle] = frozenset().union(*sets_of) & gate.keys()
    for needle, pieces in enumerate(pieces_by_needle):
        for piece in pieces:
            gate[piece].append(needle)
    return GatedMatcher(full, table, sample, gate)
