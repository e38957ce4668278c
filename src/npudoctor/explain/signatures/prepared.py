"""The table of all signatures. Ours come ready from the file that the package was built with, only a site's
are worked out here: to judge hundreds of patterns takes longer than to read most logs.

The file is JSON, which every Python reads alike: a wheel is built by one and used by five. It lies among the
sources, and is trusted as they are. Where it is missing, or was made of other sources (an editable install
after a change), the same is worked out in memory. `explain` writes nothing.
"""

from __future__ import annotations

import binascii
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.signatures import signatures as source
from npudoctor.explain.signatures.patterns import COMMON, Literal
from npudoctor.explain.signatures.signatures import (
    Signature,
    all_signatures,
    built_in,
    site_signatures,
)
from npudoctor.explain.signatures.table import (
    Piece,
    Search,
    SignatureEntry,
    SignatureTable,
    join_searches,
    make_entry,
    marks,
)
from npudoctor.knowledge.site import BrokenEntry, Knowledge

EXPLAIN = os.path.dirname(os.path.dirname(__file__))
FILE = os.path.join(EXPLAIN, "table.json")
# What the file is made by; what it is made of are these and the signatures.
# The Makefile reads the names here.
_CODE = (
    "signatures/failures.py",
    "signatures/judging.py",
    "signatures/number_patterns.py",
    "signatures/patterns.py",
    "signatures/pieces.py",
    "signatures/prepared.py",
    "signatures/signatures.py",
    "signatures/table.py",
)


# Of a file that is not there, is of other sources or damaged.
_UNUSABLE = (OSError, ValueError, LookupError, TypeError)


@dataclass(frozen=True)
class BuiltIn:
    """What is worked out from our own signatures and marks; `pieces`: see gate."""

    marks: tuple[tuple[Search, ...], ...]
    entries: tuple[SignatureEntry, ...]
    pieces: tuple[Piece, ...]


class Prepared(NamedTuple):
    """The table, and what of the site's signatures could not be used."""

    table: SignatureTable
    broken: Sequence[BrokenEntry]


def prepare_table(knowledge: Knowledge, path: str = FILE) -> Prepared:
    """The table of ours and the site's signatures."""
    ours = _read(path) or _work_out()
    site, broken = site_signatures(knowledge)
    entries = [make_entry(signature) for signature in site.values()]
    entries += [entry for entry in ours.entries if entry.signature.id not in site]
    return Prepared(join_searches(ours.marks, entries, ours.pieces), broken)


def prepare_signatures(
    knowledge: Knowledge, path: str = FILE
) -> tuple[Sequence[Signature], Sequence[BrokenEntry]]:
    """The signatures alone, and what of the site's could not be used. Who asks for a code does not want to
    know how it is found in logs, which takes longest to be read from the file."""
    try:
        ours = _signatures(_content(path))
    except _UNUSABLE:
        return all_signatures(knowledge)
    site, broken = site_signatures(knowledge)
    return [*site.values(), *(signature for signature in ours if signature.id not in site)], broken


def write(path: str = FILE) -> None:
    """Write the file: for the build of the package, which alone pays for loading what chooses pieces."""
    from npudoctor.explain.signatures.pieces import Sample, choose_cover, choose_pieces

    made = _work_out()
    # The gate that suits logs of nothing but common words.
    words = Sample(" ".join(sorted(COMMON)).encode())
    grams_of = {links: choose_pieces(links, words) for links in join_searches(made.marks, made.entries).links}
    pieces = sorted(choose_cover((grams for sets in grams_of.values() for grams in sets), words.text))
    literals: dict[Literal, int] = {}

    def number(literal: Literal) -> int:
        return literals.setdefault(literal, len(literals))

    def row(search: Search) -> list[Any]:
        links = [list(map(number, link)) for link in search.links]
        # One of the pieces in the texts of its rarest link is in every match.
        grams = frozenset().union(*grams_of[search.links])
        piece_numbers = [index for index, piece in enumerate(pieces) if piece in grams]
        return [search.pattern, search.role, list(map(number, search.literals)), links, piece_numbers]

    def fields(signature: Signature) -> dict[str, Any]:
        # Without what it says as every other one does, and without its examples, which are for tests.
        values = {name: getattr(signature, name) for name in Signature.__annotations__ if name != "examples"}
        return {name: value for name, value in values.items() if value != getattr(Signature, name, None)}

    content = {
        "made_of": _digest(),
        "marks": [list(map(row, mark)) for mark in made.marks],
        "entries": [[fields(entry.signature), list(map(row, entry.searches))] for entry in made.entries],
        "literals": [[literal.text, literal.caseless] for literal in literals],
        "pieces": [[text.decode("latin-1"), caseless] for text, caseless in pieces],
    }
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(content, ensure_ascii=False) + "\n")


def bring_up_to_date(path: str = FILE) -> None:
    """Write the file unless it says what these sources say: a wheel that is built from an sdist has it."""
    if _read(path) is None:
        write(path)


def _work_out() -> BuiltIn:
    return BuiltIn(marks(), tuple(map(make_entry, built_in())), ())


def _digest() -> int:
    """The check sum of all that the file depends on: against sources that changed, which nobody forges. The
    library of a real digest (OpenSSL) takes longer to load than all of them to be read."""
    digest = 0
    paths = [os.path.join(EXPLAIN, name) for name in _CODE]
    for path in (*paths, source.EVIDENCE, *(os.path.join(source.FOLDER, name) for name in source.names())):
        with open(path, "rb") as file:
            content = file.read()
        digest = binascii.crc32(b"%b %d\0" % (os.path.basename(path).encode(), len(content)), digest)
        digest = binascii.crc32(content, digest)
    return digest


def _content(path: str) -> dict[str, Any]:
    """The file as it is; one of _UNUSABLE where there is none, or it is not of these sources."""
    with open(path, encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    if content["made_of"] != _digest():
        raise ValueError("made of other sources")
    return content


def _signatures(content: Mapping[str, Any]) -> list[Signature]:
    signatures = []
    for fields, _rows in content["entries"]:
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        signatures.append(Signature(**values))
    return signatures


def _read(path: str) -> Optional[BuiltIn]:
    """What the file says; None where there is none, it is not of these sources, or is damaged."""
    try:
        content = _content(path)
        literal = list(map(Literal._make, content["literals"])).__getitem__
        searches = []  # of each mark, then of each entry
        for rows in (*content["marks"], *(rows for _fields, rows in content["entries"])):
            of_rows = []
            for pattern, role, numbers, links, known_by in rows:
                chain = tuple(tuple(map(literal, link)) for link in links)
                of_rows.append(Search(pattern, role, tuple(map(literal, numbers)), chain, tuple(known_by)))
            searches.append(tuple(of_rows))
        marks_read = len(content["marks"])
        entries = tuple(map(SignatureEntry, _signatures(content), searches[marks_read:]))
        pieces = tuple((text.encode("latin-1"), caseless) for text, caseless in content["pieces"])
        return BuiltIn(tuple(searches[:marks_read]), entries, pieces)
    except _UNUSABLE:
        return None
