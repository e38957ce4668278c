"""Every signature that was found, with all files and ranks in which it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.explain.ending import Ending
from npudoctor.explain.evidence import Evidence, Found, Seen
from npudoctor.explain.signatures import Signature
from npudoctor.explain.table import NEAR, WITHOUT
from npudoctor.frozen import dataclass


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


class Candidate:
    """A signature that was found. `low`: only in lines that call themselves warnings; `survived`: wherever it
    was, the job went on."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.count = 0
        self.spots: list[Spot] = []
        self.low = True
        self.survived = True
        self.score = float(signature.weight)
        self.echo = False

    def add(self, evidence: Evidence, order: int, found: Found, ending: Ending) -> None:
        """Take in one file."""
        self.count += found.count
        self.spots += [Spot(evidence.path, order, seen) for seen in found.ranks.values()]
        last = found.last or max(found.ranks.values(), key=lambda seen: seen.offset)
        self.low = self.low and found.last is None
        self.survived = self.survived and ending.survived(last)

    @property
    def first(self) -> Spot:
        """Where it was first."""
        return min(self.spots, key=Spot.first_key)

    @property
    def failed(self) -> bool:
        """Whether it is a failure by itself: an error after which nothing went on."""
        return not self.low and not self.survived

    def where(self) -> set[tuple[str, Optional[int]]]:
        """The files and ranks in which it was."""
        return {(spot.path, spot.seen.rank) for spot in self.spots}


def candidates_of(
    signatures: Sequence[Signature], files: Sequence[tuple[Evidence, Ending]]
) -> list[Candidate]:
    """What was found in all files; what must or must not be elsewhere in a file is asked here."""
    known: dict[int, Candidate] = {}
    for order, (evidence, ending) in enumerate(files):
        for owner, found in _standing(signatures, evidence):
            if owner not in known:
                known[owner] = Candidate(signatures[owner])
            known[owner].add(evidence, order, found, ending)
    return list(known.values())


def _standing(signatures: Sequence[Signature], evidence: Evidence) -> Iterator[tuple[int, Found]]:
    for owner, found in evidence.found.items():
        signature = signatures[owner]
        lacks = not signature.within and signature.near and (owner, NEAR) not in evidence.aside
        if not lacks and (owner, WITHOUT) not in evidence.aside:
            yield owner, found
