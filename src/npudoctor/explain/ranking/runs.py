"""The earlier runs of a log to which several were written: how each of them ended, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.ranking.ending import Ending
from npudoctor.explain.scanning.evidence import Evidence, Seen
from npudoctor.explain.signatures.signatures import Signature

_MOST = 20  # of a file


@dataclass(frozen=True)
class Run:
    """An earlier run: its lines, the signature that ended it where one is known, and its last error."""

    path: str
    first: int
    last: int
    signature: Optional[Signature]
    seen: Optional[Seen]


def earlier_runs(
    signatures: Sequence[Signature], files: Sequence[tuple[Evidence, Ending]]
) -> tuple[Run, ...]:
    """The runs before the last one of each file; of many the last ones."""
    runs: list[Run] = []
    for evidence, ending in files:
        begin, line = 0, evidence.before + 1
        of_file = []
        for start in ending.runs:
            seen = ending.death(begin, start.offset)
            # The weightiest signature that is known to be at the line of its last error.
            matching = [
                signatures[index]
                for index, match in evidence.matches.items()
                if seen is not None
                if any(place and place.line == seen.line for place in (*match.ranks.values(), match.last))
            ]
            signature = max(matching, key=lambda signature: signature.weight, default=None)
            of_file.append(Run(evidence.path, line, start.line - 1, signature, seen))
            begin, line = start.offset, start.line
        runs += of_file[-_MOST:]
    return tuple(runs)
