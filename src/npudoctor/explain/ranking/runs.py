"""The earlier runs of a log to which several were written: how each of them ended, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.ranking.ending import LogEnding
from npudoctor.explain.scanning.evidence import Evidence, LogLine
from npudoctor.explain.signatures.signatures import Signature

_MOST = 20  # of a file


@dataclass(frozen=True)
class EarlierRun:
    """An earlier run: its lines, the signature that ended it where one is known, and its last error."""

    path: str
    first: int
    last: int
    signature: Optional[Signature]
    last_error: Optional[LogLine]


def find_earlier_runs(
    signatures: Sequence[Signature], files: Sequence[tuple[Evidence, LogEnding]]
) -> tuple[EarlierRun, ...]:
    """The runs before the last one of each file; of many the last ones."""
    runs: list[EarlierRun] = []
    for evidence, ending in files:
        begin, line = 0, evidence.lines_before + 1
        of_file = []
        for start in ending.run_starts:
            log_line = ending.find_death(begin, start.offset)
            # The weightiest signature that is known to be at the line of its last error.
            matching = [
                signatures[index]
                for index, match in evidence.matches.items()
                if log_line is not None
                if any(place and place.line == log_line.line for place in (*match.ranks.values(), match.last))
            ]
            signature = max(matching, key=lambda signature: signature.weight, default=None)
            of_file.append(EarlierRun(evidence.path, line, start.line - 1, signature, log_line))
            begin, line = start.offset, start.line
        runs += of_file[-_MOST:]
    return tuple(runs)
