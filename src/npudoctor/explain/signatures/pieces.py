"""The short pieces by which needles are known: few of them, and such as are rare in the text at hand."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator

from npudoctor.explain.signatures.patterns import Literal, spellings
from npudoctor.explain.signatures.table import Piece

SIZE = 8  # bytes of a piece: so many hyperscan compares before it looks closer
_LEAST = 5  # bytes of a piece of a text that is shorter than others
Links = tuple[tuple[Literal, ...], ...]


class Sample:
    """A text that is asked often what is in it, in small letters."""

    def __init__(self, text: bytes) -> None:
        self.text, self._text = text, text.lower()
        self.pieces = pieces_of(self._text)

    def has(self, text: bytes) -> bool:
        """Whether a text in small letters is in it."""
        return (len(text) < SIZE or text[:SIZE] in self.pieces) and text in self._text

    def holds(self, text: bytes, caseless: bool) -> bool:
        """Whether a text is in it, as it is written or in any case."""
        return self.has(text.lower()) and (caseless or text in self.text)


def pieces_of(text: bytes) -> frozenset[bytes]:
    """All pieces of a text; a shorter text is its own."""
    return frozenset([text[at : at + SIZE] for at in range(max(1, len(text) - SIZE + 1))])


def choose_cover(chosen: Iterable[frozenset[Piece]], usual: bytes = b"") -> Iterator[Piece]:
    """Few pieces, so that one of each set is among them: always the one that is in most of those left. Of
    equal ones the longest, and that which is least like what is usual in logs: for all that looks like one
    hyperscan has to look closer."""
    todo = set(chosen)
    holders: dict[Piece, set[frozenset[Piece]]] = {}
    for grams in todo:
        for gram in grams:
            holders.setdefault(gram, set()).add(grams)
    pairs = Counter(zip(usual, usual[1:]))
    heap = []
    for gram, sets in holders.items():
        lower = gram[0].lower()
        likeness = sum(math.log(1 + pairs.get(pair, 0)) for pair in zip(lower, lower[1:])) / len(lower)
        heap.append((-len(sets), -len(lower), likeness, gram))
    heapq.heapify(heap)
    uncovered = set(todo)
    while uncovered:
        count, length, likeness, gram = heapq.heappop(heap)
        now = len(holders[gram] & uncovered)
        if now == -count:
            yield gram
            uncovered -= holders[gram]
        elif now:
            heapq.heappush(heap, (-now, length, likeness, gram))


def choose_pieces(links: Links, sample: Sample) -> list[frozenset[Piece]]:
    """Of each text of the rarest link, the pieces that are rare here; all of them where none is."""
    choices = []
    for link in links:
        texts = [(text, caseless) for _number, text, caseless in spellings(link)]
        pieces = [cased_pieces_of(text, caseless) for text, caseless in texts]
        rare = [frozenset(piece for piece in of_text if not sample.holds(*piece)) for of_text in pieces]
        rare_or_all = [few or of_text for few, of_text in zip(rare, pieces)]
        choices.append(
            (all(rare), min(SIZE, *(len(text) for text, _caseless in texts)), -len(texts), rare_or_all)
        )
    return max(choices, key=lambda choice: choice[:3])[3]


def cased_pieces_of(text: bytes, caseless: bool) -> frozenset[Piece]:
    """The pieces of a text: as it is written, which is in less of what is no match, and in any case, which
    more needles may share."""
    lower = text.lower()
    cased = b"" if caseless or text == lower else text
    exact = set(pieces_of(cased))
    if _LEAST < len(cased) < SIZE:  # a code as EF1001: one piece for many of them
        exact |= {cased[at : at + _LEAST] for at in range(len(cased) - _LEAST + 1)}
    return frozenset(
        [(piece, True) for piece in pieces_of(lower)]
        + [(piece, False) for piece in exact if piece != piece.lower()]
    )
