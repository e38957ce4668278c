"""Literals found with hyperscan, a multi-pattern engine; its compiled database is kept in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import platform
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Optional

from npudoctor.explain.cache import Cache
from npudoctor.explain.matching import Hit, spellings
from npudoctor.explain.table import Table
from npudoctor.frozen import dataclass


@dataclass(frozen=True)
class Expression:
    """What hyperscan looks for: a text of each link, one after the other; mostly it is one text."""

    number: int
    caseless: bool
    links: tuple[tuple[bytes, ...], ...]

    @property
    def pattern(self) -> bytes:
        """As hyperscan spells it."""
        choices = [b"|".join(map(re.escape, link)) for link in self.links]
        return choices[0] if len(choices) == 1 else b".*".join(b"(?:%b)" % choice for choice in choices)

    @property
    def example(self) -> bytes:
        """A text in which it is found, at its end."""
        return b" ".join(link[0] for link in self.links)


class Fast:
    """The matcher that uses hyperscan."""

    name = "hyperscan"

    def __init__(self, database: Any, owners: Sequence[Sequence[int]], key: str) -> None:
        self.database, self.owners, self.key = database, owners, key

    def found(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        hits: list[Hit] = []
        self.database.scan(block, noted, context=hits)
        return hits


def noted(number: int, _start: int, end: int, _flags: int, hits: list[Hit]) -> None:
    hits.append((number, end))


def fast(table: Table, cache: Optional[Cache]) -> Optional[Fast]:
    """The matcher for a table; None where hyperscan is not installed or does not run on this CPU."""
    try:
        hyperscan: Any = import_module("hyperscan")
    except ImportError:
        return None
    owners = _owners(table)
    told = list(_expressions(table, owners))
    key = _key(hyperscan.__version__, told)
    name = f"literals-{key}.hs"
    kept = cache.get(name) if cache else None
    with contextlib.suppress(Exception):  # what cannot be loaded, or does not work, is made again
        if kept is not None:
            return _tried(Fast(_loaded(hyperscan, kept), owners, key), told)
    # Without SSSE3, or with a library of another build, the other engine says the same.
    with contextlib.suppress(Exception):
        found = _tried(Fast(compiled(told), owners, key), told)
        if cache:
            cache.put(name, hyperscan.dumpb(found.database))
        return found
    return None


def _owners(table: Table) -> list[tuple[int, ...]]:
    """Whose each number is: those of the literals, without the needles that want a chain, then these."""
    chained = {number for number, chain in enumerate(table.chains) if chain.needed}
    literals = [tuple(one for one in owners if one not in chained) for owners in table.owners]
    return literals + [(number,) for number in sorted(chained)]


def _expressions(table: Table, owners: Sequence[Sequence[int]]) -> Iterator[Expression]:
    for number, text, caseless in spellings(table.literals):
        if owners[number]:
            yield Expression(number, caseless, ((text,),))
    for number in range(len(table.literals), len(owners)):
        links = table.chains[owners[number][0]].links
        texts = tuple(tuple(one.text.encode() for one in link) for link in links)
        yield Expression(number, links[0][0].caseless, texts)


def _tried(found: Fast, told: Sequence[Expression]) -> Fast:
    """The matcher, if it finds what is there; ValueError when it does not."""
    for one in (*told[:1], *told[-1:]):
        if (one.number, len(one.example)) not in found.found(one.example):
            raise ValueError("the database does not find what it was made for")
    return found


def _loaded(hyperscan: Any, kept: bytes) -> Any:
    try:
        database = hyperscan.loadb(kept, hyperscan.HS_MODE_BLOCK)
    except TypeError:  # before 0.8 it knew the mode by itself
        database = hyperscan.loadb(kept)
    database.scratch = hyperscan.Scratch(database)
    return database


def compiled(told: Sequence[Expression]) -> Any:
    """A database for these expressions."""
    hyperscan: Any = import_module("hyperscan")
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    # Mostly they are texts and nothing else, which compile in a tenth of the time.
    plain = all(len(one.links) == len(one.links[0]) == 1 for one in told)
    flags = [
        (0 if plain else hyperscan.HS_FLAG_DOTALL) | (hyperscan.HS_FLAG_CASELESS if one.caseless else 0)
        for one in told
    ]
    database.compile(
        expressions=[one.links[0][0] if plain else one.pattern for one in told],
        ids=[one.number for one in told],
        elements=len(told),
        flags=flags,
        literal=plain,
    )
    return database


def _key(version: str, told: Sequence[Expression]) -> str:
    """What a database is good for: this release, this kind of CPU, these expressions."""
    digest = hashlib.sha256()
    for part in (version, platform.machine(), platform.python_version(), _features()):
        digest.update(part.encode() + b"\0")
    for one in told:
        digest.update(b"%d %d %b\0" % (one.number, one.caseless, one.pattern))
    return digest.hexdigest()[:32]


def _features() -> str:
    """What the CPU can do, as the kernel says; only the first CPU: there may be hundreds."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            head = file.read(8192).decode("ascii", "replace")
    except OSError:
        return ""
    lines = [line for line in head.splitlines() if line.lower().startswith(("flags", "features"))]
    return lines[0] if lines else ""
