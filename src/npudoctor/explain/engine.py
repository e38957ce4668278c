"""Explains logs: scans them, in several processes if they are large, and judges all evidence together."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.ranking.judge import Judgement, judge
from npudoctor.explain.reading.pasted import PastedLog
from npudoctor.explain.reading.pool import scan_logs
from npudoctor.explain.reading.reading import read_source
from npudoctor.explain.reading.sources import Source
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.scanning.hyperscan_matcher import HyperscanMatcher, make_hyperscan_matcher
from npudoctor.explain.scanning.matching import LazyMatcher, Matcher, RegexMatcher
from npudoctor.explain.scanning.scan import Scan
from npudoctor.explain.signatures.signatures import Signature
from npudoctor.explain.signatures.table import SignatureTable, make_table

Progress = Callable[[int, int], None]  # bytes done, bytes in all
_LARGE = 8 << 20  # bytes; for less data looking at a sample first saves nothing
_HUGE = 192 << 20  # bytes; for less data choosing a gate takes longer than it saves


@dataclass(frozen=True)
class Engine:
    """Signatures, compiled into what a scan looks for."""

    table: SignatureTable
    matcher: Matcher

    def scan_logs(
        self,
        logs: Sequence[Log],
        processes: Optional[int] = None,
        progress: Optional[Progress] = None,
        until: float = math.inf,
    ) -> list[Evidence]:
        """Scan log files; the evidence of each, in their order.

        `processes`: how many to use, None to choose. `until`: the deadline on the monotonic clock; evidence
        of a file that was not read by then says so in `problem`.
        """
        matcher: Matcher = self.matcher
        size = sum(log.size for log in logs)
        if isinstance(matcher, LazyMatcher) and size >= _LARGE:
            matcher = matcher.whole()  # once, before processes are started that would each make it
        if isinstance(matcher, HyperscanMatcher) and size >= _LARGE:
            from npudoctor.explain.reading.sample import sample_of
            from npudoctor.explain.scanning.gate import make_gated_matcher

            sample = sample_of(logs)
            if size >= _HUGE:
                matcher = make_gated_matcher(matcher, self.table, sample)
            else:
                matcher.adapt_to(sample)
                matcher.compile()
        return scan_logs(self.table, matcher, logs, processes, progress, until)

    def scan_source(self, source: Source, until: float = math.inf) -> Evidence:
        """Scan one open input, such as a pipe, which can be read only once."""
        year = time.localtime().tm_year
        return read_source(Scan(self.table, self.matcher, source.path, year, until=until), source)

    def scan_text(self, log: str, path: str = "-") -> Evidence:
        """Scan a text."""
        return self.scan_bytes(log.encode("utf-8", "surrogateescape"), path)

    def scan_bytes(self, content: bytes, path: str = "-") -> Evidence:
        """Scan the bytes of a log."""
        pasted = PastedLog([content])
        scan = Scan(self.table, self.matcher, path, time.localtime().tm_year)
        evidence = pasted.evidence(scan.scan_pieces(pasted.pieces()))
        evidence.bytes = len(content)
        return evidence

    def judge(self, evidence: Iterable[Evidence]) -> Judgement:
        """Judge the evidence of all files together."""
        return judge(self.table.signatures, tuple(evidence))


def make_engine(signatures: Sequence[Signature], *, plain: bool = False) -> Engine:
    """An engine for these signatures."""
    return make_engine_for_table(make_table(signatures), plain=plain)


def make_engine_for_table(table: SignatureTable, *, plain: bool = False) -> Engine:
    """An engine for a table: with hyperscan where it is, unless the plain one is asked for."""
    return Engine(
        table,
        RegexMatcher(table)
        if plain
        else LazyMatcher(table, lambda: make_hyperscan_matcher(table) or RegexMatcher(table)),
    )
