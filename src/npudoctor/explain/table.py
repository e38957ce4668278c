"""All that one scan looks for: the literals of signatures and marks, and whose each literal is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npudoctor.explain.failures import MARKS
from npudoctor.explain.patterns import Literal, literals_of
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
class Table:
    """Signatures, needles, and the literals: literal i belongs to the needles `owners[i]`."""

    signatures: tuple[Signature, ...]
    needles: tuple[Needle, ...]
    literals: tuple[Literal, ...]
    owners: tuple[tuple[int, ...], ...]


def table_of(signatures: Sequence[Signature]) -> Table:
    """What to look for, so that each of these signatures can be found."""
    needles = tuple(_needles(signatures))
    owners: dict[Literal, list[int]] = {}
    for number, needle in enumerate(needles):
        for literal in _known(needle.pattern):
            owners.setdefault(literal, []).append(number)
    return Table(tuple(signatures), needles, tuple(owners), tuple(map(tuple, owners.values())))


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


def _known(pattern: str) -> tuple[Literal, ...]:
    return literals_of(pattern)
