"""Explains logs: what to read, the scan of it in all processes, the judgement of all of it together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Callable, Optional

from npudoctor.explain.cache import Cache
from npudoctor.explain.evidence import Evidence
from npudoctor.explain.fast import Fast, fast
from npudoctor.explain.gate import WORTH, gated
from npudoctor.explain.judge import Judgement, judge
from npudoctor.explain.matching import Matcher, Plain
from npudoctor.explain.pool import scanned
from npudoctor.explain.reading import read_source
from npudoctor.explain.scan import Scan
from npudoctor.explain.signatures import Signature
from npudoctor.explain.sources import Source
from npudoctor.explain.table import Table, table_of
from npudoctor.explain.walk import Log
from npudoctor.frozen import dataclass

Progress = Callable[[int, int], None]  # bytes done, bytes in all


@dataclass(frozen=True)
class Engine:
    """Signatures made ready to be looked for."""

    table: Table
    matcher: Matcher
    cache: Optional[Cache] = None

    def logs(
        self, logs: Sequence[Log], processes: Optional[int] = None, progress: Optional[Progress] = None
    ) -> list[Evidence]:
        """What the files say, in their order."""
        matcher: Matcher = self.matcher
        if isinstance(matcher, Fast) and sum(log.size for log in logs) >= WORTH:
            matcher = gated(matcher, self.table, logs, self.cache)
        return scanned(self.table, matcher, logs, processes, progress)

    def source(self, source: Source) -> Evidence:
        """What one opened input says, which can be read only once."""
        return read_source(Scan(self.table, self.matcher, source.path, time.localtime().tm_year), source)

    def text(self, log: str, path: str = "-") -> Evidence:
        """What a text says."""
        content = log.encode("utf-8", "surrogateescape")
        evidence = Scan(self.table, self.matcher, path, time.localtime().tm_year).of([content])
        evidence.bytes = len(content)
        return evidence

    def judged(self, evidence: Iterable[Evidence]) -> Judgement:
        """What it means."""
        return judge(self.table.signatures, tuple(evidence))


def engine_of(signatures: Sequence[Signature], *, plain: bool = False) -> Engine:
    """An engine for these signatures."""
    return engine_for(table_of(signatures), plain=plain)


def engine_for(table: Table, cache: Optional[Cache] = None, *, plain: bool = False) -> Engine:
    """An engine for a table: with hyperscan where it is, unless the plain one is asked for."""
    matcher: Optional[Matcher] = None if plain else fast(table, cache)
    return Engine(table, Plain(table) if matcher is None else matcher, cache)
