"""The table of all signatures. Ours come ready from the file that the package was built with, only a site's
are worked out here: to judge hundreds of patterns takes longer than to read most logs.

The file is JSON, which every Python reads alike: a wheel is built by one and used by five. It lies among the
sources, and is trusted as they are. Where it is missing, or was made of other sources (an editable install
after a change), the same is worked out in memory. `explain` writes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.signatures import signatures as source
from npudoctor.explain.signatures.patterns import COMMON, Literal
from npudoctor.explain.signatures.pieces import Sample, cover, known_by
from npudoctor.explain.signatures.signatures import Signature, built_in, site_signatures
from npudoctor.explain.signatures.table import Entry, Piece, Search, Table, entry_of, joined, marks
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


@dataclass(frozen=True)
class BuiltIn:
    """What is worked out from our own signatures and marks; `pieces`: see gate."""

    marks: tuple[tuple[Search, ...], ...]
    entries: tuple[Entry, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Prepared:
    """The table, and what of the site's signatures could not be used."""

    table: Table
    broken: tuple[BrokenEntry, ...]


def prepared(knowledge: Knowledge, path: str = FILE) -> Prepared:
    """The table of ours and the site's signatures."""
    ours = _read(path) or _worked_out()
    site, broken = site_signatures(knowledge)
    entries = [entry_of(one) for one in site.values()]
    entries += [one for one in ours.entries if one.signature.id not in site]
    return Prepared(joined(ours.marks, entries, ours.pieces), tuple(broken))


def write(path: str = FILE) -> None:
    """Write the file: for the build of the package."""
    content = json.dumps({"made_of": _made_of(), **_written(_worked_out())}, ensure_ascii=False)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content + "\n")


def _worked_out() -> BuiltIn:
    return BuiltIn(marks(), tuple(map(entry_of, built_in())), ())


def _made_of() -> str:
    """The digest of all that the file depends on."""
    import hashlib

    digest = hashlib.sha256()
    paths = [os.path.join(EXPLAIN, name) for name in _CODE]
    for path in (*paths, *(os.path.join(source.FOLDER, name) for name in source.names())):
        with open(path, "rb") as file:
            content = file.read()
        digest.update(b"%b %d\0" % (os.path.basename(path).encode(), len(content)) + content)
    return digest.hexdigest()


def _written(made: BuiltIn) -> dict[str, Any]:
    literals: dict[Literal, int] = {}
    gate = _Gate(made)

    def number(literal: Literal) -> int:
        return literals.setdefault(literal, len(literals))

    def row(one: Search) -> list[Any]:
        links = [list(map(number, link)) for link in one.links]
        return [one.pattern, one.role, list(map(number, one.literals)), links, gate.known_by(one)]

    written = {
        "marks": [list(map(row, mark)) for mark in made.marks],
        "entries": [[_plain(entry.signature), list(map(row, entry.searches))] for entry in made.entries],
    }
    texts = [[one.text, one.caseless] for one in literals]
    pieces = [[text.decode("latin-1"), caseless] for text, caseless in gate.pieces]
    return {**written, "literals": texts, "pieces": pieces}


class _Gate:
    """The gate that suits logs of nothing but common words."""

    def __init__(self, made: BuiltIn) -> None:
        words = Sample(" ".join(sorted(COMMON)).encode())
        links = joined(made.marks, made.entries).links
        self._known = {one: known_by(one, words) for one in links}
        self.pieces = sorted(cover((grams for one in links for grams in self._known[one]), words.text))

    def known_by(self, search: Search) -> list[int]:
        """The numbers of pieces one of which is in every match: those in the texts of its rarest link."""
        grams = frozenset().union(*self._known[search.links])
        return [number for number, piece in enumerate(self.pieces) if piece in grams]


def _plain(signature: Signature) -> dict[str, Any]:
    """A signature without what it says as every other one does, and without its examples, which are for
    tests."""
    fields = {name: getattr(signature, name) for name in Signature.__annotations__ if name != "examples"}
    return {name: one for name, one in fields.items() if one != getattr(Signature, name, None)}


def _read(path: str) -> Optional[BuiltIn]:
    """What the file says; None where there is none, it is not of these sources, or is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        return _built_in(content) if content["made_of"] == _made_of() else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _built_in(content: Mapping[str, Any]) -> BuiltIn:
    literals = [Literal(*one) for one in content["literals"]]

    def search(row: list[Any]) -> Search:
        pattern, role, numbers, links, known_by = row
        made = tuple(tuple(literals[one] for one in link) for link in links)
        return Search(pattern, role, tuple(literals[one] for one in numbers), made, tuple(known_by))

    return BuiltIn(
        tuple(tuple(map(search, mark)) for mark in content["marks"]),
        tuple(Entry(_signature(one), tuple(map(search, rows))) for one, rows in content["entries"]),
        tuple((text.encode("latin-1"), caseless) for text, caseless in content["pieces"]),
    )


def _signature(row: Mapping[str, Any]) -> Signature:
    values: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in row.items()}
    return Signature(**values)
