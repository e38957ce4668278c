"""Explains logs: what to read, the scan of it in all processes, the judgement of all of it together."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.ranking.judge import Judgement, judge
from npudoctor.explain.reading.pasted import Pasted
from npudoctor.explain.reading.pool import scan_logs
from npudoctor.explain.reading.reading import read_source
from npudoctor.explain.reading.sources import Source
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.scanning.hyperscan_matcher import Fast, fast
from npudoctor.explain.scanning.matching import Gradual, Matcher, Plain
from npudoctor.explain.scanning.scan import Scan
from npudoctor.explain.signatures.signatures import Signature
from npudoctor.explain.signatures.table import Table, table_of

Progress = Callable[[int, int], None]  # bytes done, bytes in all
_LARGE = 8 << 20  # with less data, to look at a sample first saves nothing;
_HUGE = 192 << 20  # and to choose a gate takes longer than it saves


@dataclass(frozen=True)
class Engine:
    """Signatures made ready to be looked for."""

    table: Table
    matcher: Matcher

    def logs(
        self,
        logs: Sequence[Log],
        processes: Optional[int] = None,
        progress: Optional[Progress] = None,
        until: float = math.inf,
    ) -> list[Evidence]:
        """What the files say, in their order; what was not read `until` then (steady clock) says so."""
        matcher: Matcher = self.matcher
        size = sum(log.size for log in logs)
        if isinstance(matcher, Gradual) and size >= _LARGE:
            matcher = matcher.whole()  # once, before processes are started that would each make it
        if isinstance(matcher, Fast) and size >= _LARGE:
            from npudoctor.explain.reading.sample import sample_of
            from npudoctor.explain.scanning.gate import gate_for

            sample = sample_of(logs)
            if size >= _HUGE:
                matcher = gate_for(matcher, self.table, sample)
            else:
                matcher.suit(sample)
                matcher.compile()
        return scan_logs(self.table, matcher, logs, processes, progress, until)

    def source(self, source: Source, until: float = math.inf) -> Evidence:
        """What one opened input says, which can be read only once."""
        year = time.localtime().tm_year
        return read_source(Scan(self.table, self.matcher, source.path, year, until=until), source)

    def text(self, log: str, path: str = "-") -> Evidence:
        """What a text says."""
        return self.raw(log.encode("utf-8", "surrogateescape"), path)

    def raw(self, content: bytes, path: str = "-") -> Evidence:
        """What the bytes of a log say."""
        pasted = Pasted([content])
        scan = Scan(self.table, self.matcher, path, time.localtime().tm_year)
        evidence = pasted.evidence(scan.of(pasted.pieces()))
        evidence.bytes = len(content)
        return evidence

    def judge(self, evidence: Iterable[Evidence]) -> Judgement:
        """What it means."""
        return judge(self.table.signatures, tuple(evidence))


def engine_of(signatures: Sequence[Signature], *, plain: bool = False) -> Engine:
    """An engine for these signatures."""
    return engine_for(table_of(signatures), plain=plain)


def engine_for(table: Table, *, plain: bool = False) -> Engine:
    """An engine for a table: with hyperscan where it is, unless the plain one is asked for."""
    return Engine(table, Plain(table) if plain else Gradual(table, lambda: fast(table) or Plain(table)))
