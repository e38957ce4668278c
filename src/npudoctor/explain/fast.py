"""Literals found with hyperscan, a multi-pattern engine; its compiled database is kept in the user's cache."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from typing import Any, Optional

from npudoctor.explain.cache import Cache
from npudoctor.explain.matching import Hit, spellings
from npudoctor.explain.patterns import Literal


class Fast:
    """The matcher that uses hyperscan."""

    name = "hyperscan"

    def __init__(self, database: Any, numbers: Sequence[int]) -> None:
        self._database = database
        self._numbers = numbers

    def found(self, block: bytes) -> list[Hit]:
        """The hits in a block."""
        hits: list[tuple[int, int]] = []
        self._database.scan(block, _noted, context=hits)
        numbers = self._numbers
        return [(numbers[found], end) for found, end in hits]


def _noted(found: int, _start: int, end: int, _flags: int, hits: list[tuple[int, int]]) -> None:
    hits.append((found, end))


def fast(literals: Sequence[Literal], cache: Optional[Cache]) -> Optional[Fast]:
    """The matcher for these literals; None where hyperscan is not installed or does not run on this CPU."""
    try:
        import hyperscan
    except ImportError:
        return None
    told = spellings(literals)
    numbers = [number for number, _text, _caseless in told]
    name = f"literals-{_key(hyperscan.__version__, told)}.hs" if cache else ""
    kept = cache.get(name) if cache else None
    try:
        if kept is not None:
            return Fast(hyperscan.loadb(kept), numbers)
    except Exception:  # what cannot be loaded is made again
        kept = None
    try:
        database = _compiled(hyperscan, told)
        if cache:
            cache.put(name, hyperscan.dumpb(database))
    except Exception:  # a CPU without SSSE3, a library of another build: the other engine says the same
        return None
    return Fast(database, numbers)


def _compiled(hyperscan: Any, told: Sequence[tuple[int, bytes, bool]]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = [hyperscan.HS_FLAG_CASELESS if caseless else 0 for _number, _text, caseless in told]
    texts = [text for _number, text, _caseless in told]
    numbers = list(range(len(texts)))
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
