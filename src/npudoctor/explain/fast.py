"""Literals found with hyperscan, a multi-pattern engine; its compiled database is kept in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Optional

from npudoctor.explain.cache import Cache
from npudoctor.explain.matching import Hit, spellings
from npudoctor.explain.patterns import Literal


class Fast:
    """The matcher that uses hyperscan."""

    name = "hyperscan"

    def __init__(self, database: Any) -> None:
        self.database = database

    def found(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        hits: list[Hit] = []
        self.database.scan(block, _noted, context=hits)
        return hits


def _noted(number: int, _start: int, end: int, _flags: int, hits: list[Hit]) -> None:
    hits.append((number, end))


def fast(literals: Sequence[Literal], cache: Optional[Cache]) -> Optional[Fast]:
    """The matcher for these literals; None where hyperscan is not installed or does not run on this CPU."""
    try:
        hyperscan: Any = import_module("hyperscan")
    except ImportError:
        return None
    told = spellings(literals)
    name = f"literals-{_key(hyperscan.__version__, told)}.hs" if cache else ""
    kept = cache.get(name) if cache else None
    with contextlib.suppress(Exception):  # what cannot be loaded, or does not work, is made again
        if kept is not None:
            return _tried(_loaded(hyperscan, kept), told)
    # Without SSSE3, or with a library of another build, the other engine says the same.
    with contextlib.suppress(Exception):
        found = _tried(_compiled(hyperscan, told), told)
        if cache:
            cache.put(name, hyperscan.dumpb(found.database))
        return found
    return None


def _tried(database: Any, told: Sequence[tuple[int, bytes, bool]]) -> Fast:
    """The matcher, if it finds a literal that is there; ValueError when it does not."""
    found = Fast(database)
    for number, text, _caseless in told[:1]:
        if (number, len(text)) not in found.found(text):
            raise ValueError("the database does not find what it was made for")
    return found


def _loaded(hyperscan: Any, kept: bytes) -> Any:
    try:
        database = hyperscan.loadb(kept, hyperscan.HS_MODE_BLOCK)
    except TypeError:  # before 0.8 it knew the mode by itself
        database = hyperscan.loadb(kept)
    database.scratch = hyperscan.Scratch(database)
    return database


def _compiled(hyperscan: Any, told: Sequence[tuple[int, bytes, bool]]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = [hyperscan.HS_FLAG_CASELESS if caseless else 0 for _number, _text, caseless in told]
    texts = [text for _number, text, _caseless in told]
    numbers = [number for number, _text, _caseless in told]
    database.compile(expressions=texts, ids=numbers, elements=len(texts), flags=flags, literal=True)
    return database


def _key(version: str, told: Sequence[tuple[int, bytes, bool]]) -> str:
    """What a database is good for: this release, this kind of CPU, these literals."""
    digest = hashlib.sha256()
    for part in (version, platform.machine(), platform.python_version(), _features(), repr(told)):
        digest.update(part.encode() + b"\0")
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
