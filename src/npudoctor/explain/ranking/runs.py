"""The earlier runs of a log to which several were written: how each of them ended, in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    found = (list(_of(signatures, evidence, ending)) for evidence, ending in files)
    return tuple(run for runs in found for run in runs[-_MOST:])


def _of(signatures: Sequence[Signature], evidence: Evidence, ending: Ending) -> Iterator[Run]:
    begin, line = 0, evidence.before + 1
    for start in ending.runs:
        seen = ending.death(begin, start.offset)
        yield Run(evidence.path, line, start.line - 1, _signature_at(signatures, evidence, seen), seen)
        begin, line = start.offset, start.line


def _signature_at(
    signatures: Sequence[Signature], evidence: Evidence, seen: Optional[Seen]
) -> Optional[Signature]:
    """The weightiest signature that is known to be at the line of the last error."""
    if seen is None:
        return None
    matching = [
        signatures[index]
        for index, match in evidence.found.items()
        if any(place and place.line == seen.line for place in (*match.ranks.values(), match.last))
    ]
    return max(matching, key=lambda signature: signature.weight, default=None)
