"""All that one scan looks for: the literals of signatures and marks, and whose each literal is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npudoctor.explain.failures import MARKS
from npudoctor.explain.patterns import Literal, chain_of, literals_of, rare
from npudoctor.explain.signatures import Signature
from npudoctor.frozen import dataclass

NEAR, WITHOUT = 1, 2


@dataclass(frozen=True)
class Needle:
    """A pattern that the scan looks for: of the signature at `owner`, or of the mark at ~`owner`.

    `role` is 0 for what is found itself, NEAR or WITHOUT for what only has to be somewhere in the file.
    """

    pattern: str
    owner: int
    role: int = 0


@dataclass(frozen=True)
class Chain:
    """The links of a needle, each a choice of literals; `needed`: its rarest literals are common words."""

    links: tuple[tuple[Literal, ...], ...]
    needed: bool


@dataclass(frozen=True)
class Table:
    """Signatures, needles, and the literals: literal i belongs to the needles `owners[i]`.

    `chains`: of each needle what every match of it goes through, and whether an engine that can should look
    for that: common words alone would be found everywhere.
    """

    signatures: tuple[Signature, ...]
    needles: tuple[Needle, ...]
    literals: tuple[Literal, ...]
    owners: tuple[tuple[int, ...], ...]
    chains: tuple[Chain, ...]


def table_of(signatures: Sequence[Signature]) -> Table:
    """What to look for, so that each of these signatures can be found."""
    needles = tuple(_needles(signatures))
    owners: dict[Literal, list[int]] = {}
    chains = []
    for number, needle in enumerate(needles):
        literals = literals_of(needle.pattern)
        for literal in literals:
            owners.setdefault(literal, []).append(number)
        chains.append(_chain(needle.pattern, literals))
    return Table(tuple(signatures), needles, tuple(owners), tuple(map(tuple, owners.values())), tuple(chains))


def _chain(pattern: str, literals: tuple[Literal, ...]) -> Chain:
    links = chain_of(pattern)
    if len(links) < 2 or not all(one.text.isascii() for link in links for one in link):
        return Chain((literals,), False)
    return Chain(links, not rare(literals))


def _needles(signatures: Sequence[Signature]) -> Iterator[Needle]:
    for index, mark in enumerate(MARKS):
        for pattern in mark.patterns:
            yield Needle(pattern, ~index)
    for index, signature in enumerate(signatures):
        for pattern in signature.patterns:
            yield Needle(pattern, index)
        if not signature.within:
            yield from (Needle(pattern, index, NEAR) for pattern in signature.near)
            yield from (Needle(pattern, index, WITHOUT) for pattern in signature.without)
