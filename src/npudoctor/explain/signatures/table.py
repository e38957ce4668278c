"""The table of what a scan looks for: the literals of signatures and marks, with their owners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from npudoctor.core.frozen import dataclass
from npudoctor.explain.signatures.failures import MARKS
from npudoctor.explain.signatures.patterns import Literal, analyse
from npudoctor.explain.signatures.signatures import Signature

NEAR, WITHOUT = 1, 2
Piece = tuple[bytes, bool]  # a text, and whether in any case: then in small letters


class Needle(NamedTuple):
    """A pattern that the scan looks for: of the signature at `owner`, or of the mark at ~`owner`.

    `role` is 0 for what is found itself, NEAR or WITHOUT for what only has to be somewhere in the file.
    """

    pattern: str
    owner: int
    role: int = 0


class Search(NamedTuple):
    """How a pattern is looked for: one of the literals is in every match, and every match goes through all
    links in their order, each a choice of literals. `known_by`: see Table."""

    pattern: str
    role: int
    literals: tuple[Literal, ...]
    links: tuple[tuple[Literal, ...], ...]
    known_by: tuple[int, ...] = ()


class SignatureEntry(NamedTuple):
    """A signature and how its patterns are looked for."""

    signature: Signature
    searches: tuple[Search, ...]


@dataclass(frozen=True)
class SignatureTable:
    """Signatures, needles, and the literals: literal i belongs to the needles `owners[i]`.

    `links`: of each needle all that every match of it goes through. `pieces`: a gate for most logs, and
    `known_by`: of each needle the numbers of those by which it is known; none where that was not worked out.
    """

    signatures: tuple[Signature, ...]
    needles: tuple[Needle, ...]
    literals: tuple[Literal, ...]
    owners: tuple[tuple[int, ...], ...]
    links: tuple[tuple[tuple[Literal, ...], ...], ...]
    pieces: tuple[Piece, ...]
    known_by: tuple[tuple[int, ...], ...]


def make_table(signatures: Iterable[Signature]) -> SignatureTable:
    """What to look for, so that each of these signatures can be found."""
    return join_searches(marks(), [make_entry(signature) for signature in signatures])


def marks() -> tuple[tuple[Search, ...], ...]:
    """How each of the marks is looked for."""
    return tuple(tuple(_search(pattern) for pattern in mark.patterns) for mark in MARKS)


def make_entry(signature: Signature) -> SignatureEntry:
    """A signature with all that is worked out from its patterns; Unsuitable when one cannot be found. A scan
    looks for none of a fallback, and for `near` and `without` only where they may be anywhere in the file."""
    if signature.fallback:
        return SignatureEntry(signature, ())
    searches = [_search(pattern) for pattern in signature.patterns]
    if not signature.within:
        searches += [_search(pattern, NEAR) for pattern in signature.near]
        searches += [_search(pattern, WITHOUT) for pattern in signature.without]
    return SignatureEntry(signature, tuple(searches))


def join_searches(
    of_marks: Sequence[Sequence[Search]], entries: Sequence[SignatureEntry], pieces: Sequence[Piece] = ()
) -> SignatureTable:
    """The table of these marks and signatures."""
    searches = [(~index, search) for index, mark in enumerate(of_marks) for search in mark]
    searches += [(index, search) for index, entry in enumerate(entries) for search in entry.searches]
    owners: dict[Literal, list[int]] = {}
    for number, (_owner, search) in enumerate(searches):
        for literal in search.literals:
            owners.setdefault(literal, []).append(number)
    return SignatureTable(
        signatures=tuple(entry.signature for entry in entries),
        needles=tuple(Needle(search.pattern, owner, search.role) for owner, search in searches),
        literals=tuple(owners),
        owners=tuple(map(tuple, owners.values())),
        links=tuple(search.links for _owner, search in searches),
        pieces=tuple(pieces),
        known_by=tuple(search.known_by for _owner, search in searches),
    )


def _search(pattern: str, role: int = 0) -> Search:
    literals, links = analyse(pattern)
    if len(links) < 2 or not all(literal.text.isascii() for link in links for literal in link):
        links = (literals,)
    return Search(pattern, role, literals, links)
