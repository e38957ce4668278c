"""Every signature that was found, with all files and ranks in which it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.ranking.ending import Ending
from npudoctor.explain.scanning.evidence import Evidence, Match, Seen
from npudoctor.explain.signatures.device_memory import held_by_the_job, held_elsewhere
from npudoctor.explain.signatures.signatures import Signature
from npudoctor.explain.signatures.table import NEAR, WITHOUT

OUTSIDE = "ended-from-outside"
_SPENT, _BUSY, _OWN = "out-of-device-memory", "device-busy-occupied", "device-oom-own"


@dataclass(frozen=True)
class Spot:
    """A line of a file; `order` is the place of the file among all."""

    path: str
    order: int
    seen: Seen

    def first_key(self) -> tuple[bool, float, int, int]:
        """What sorts spots: errors before warnings, then by time; a line without a time after those with."""
        moment = self.seen.moment
        return self.seen.low, float("inf") if moment is None else moment, self.order, self.seen.line

    def same_line(self, other: Spot) -> bool:
        """Whether both are one line of one file."""
        return (self.path, self.seen.line) == (other.path, other.seen.line)


class Candidate:
    """A signature that was found. `low`: only in lines that call themselves warnings; `survived`: wherever it
    was, the job went on; `passed`: also where it only warned; `outlived`: the job went on until something
    else ended it; `silent`: a warning is the last word of a log."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.count = 0
        self.spots: list[Spot] = []
        self.low = self.survived = self.passed = self.outlived = True
        self.silent = False
        self.score = float(signature.weight)
        self.echo = False

    def add(self, evidence: Evidence, order: int, match: Match, ending: Ending) -> None:
        """Take in one file."""
        self.count += match.count
        seen = [*match.ranks.values(), *(() if match.last is None else (match.last,))]
        # Who ends it from outside may start it again.
        weight = None if self.outside else self.signature.weight
        if self.outside and match.final is not None:
            seen.append(match.final)
        # That a signal came is no warning, whatever level the one gives it whom it ends.
        live = [
            line for line in seen if (self.outside or not line.low) and not ending.has_survived(line, weight)
        ]
        self.spots += [Spot(evidence.path, order, line) for line in live or match.ranks.values()]
        self.low = self.low and match.last is None and not self.outside
        self.survived = self.survived and not live
        self.passed = self.passed and all(ending.has_survived(line, weight) for line in seen)
        self.outlived = self.outlived and all(ending.has_outlived(line) for line in live)
        self.silent = self.silent or ending.silent(match.final)

    @property
    def first(self) -> Spot:
        """Where it was first."""
        return min(self.spots, key=Spot.first_key)

    @property
    def last(self) -> Spot:
        """Where it was last, as far as that is known."""
        return max(self.spots, key=lambda spot: (spot.order, spot.seen.offset))

    @property
    def failed(self) -> bool:
        """Whether it is a failure by itself: an error after which nothing went on."""
        return not self.low and not self.survived

    @property
    def outside(self) -> bool:
        """Whether it says that the job was ended from outside."""
        return self.signature.category == OUTSIDE

    def where(self) -> set[tuple[str, Optional[int]]]:
        """The files and ranks in which it was."""
        return {(spot.path, spot.seen.rank) for spot in self.spots}


def candidates_of(
    signatures: Sequence[Signature], files: Sequence[tuple[Evidence, Ending]]
) -> list[Candidate]:
    """What was found in all files; what must or must not be elsewhere in a file is asked here."""
    known: dict[int, Candidate] = {}
    for order, (evidence, ending) in enumerate(files):
        for owner, match in evidence.matches.items():
            signature = signatures[owner]
            lacks = not signature.within and signature.near and (owner, NEAR) not in evidence.aside
            if not lacks and (owner, WITHOUT) not in evidence.aside:
                known.setdefault(owner, Candidate(signature)).add(evidence, order, match, ending)
    # Memory that ran out because another process holds it is a card that is busy; what would not fit into the
    # card without any other process is the job's own.
    rows = {signature.id: signature for signature in signatures if signature.id in (_BUSY, _OWN)}
    for candidate in known.values():
        if candidate.signature.category == _SPENT:
            texts = [spot.seen.text for spot in candidate.spots]
            busy = any(map(held_elsewhere, texts))
            row = rows.get(_BUSY if busy else _OWN)
            if row is not None and (busy or any(map(held_by_the_job, texts))):
                candidate.signature, candidate.score = row, float(row.weight)
    return list(known.values())
