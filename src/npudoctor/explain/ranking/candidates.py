"""Collects the signatures that were found, each with all files and ranks in which it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.ranking.ending import LogEnding
from npudoctor.explain.scanning.evidence import Evidence, LogLine, SignatureMatch
from npudoctor.explain.signatures.device_memory import is_held_by_job, is_held_elsewhere
from npudoctor.explain.signatures.signatures import Signature
from npudoctor.explain.signatures.table import NEAR, WITHOUT

OUTSIDE = "ended-from-outside"
_SPENT, _BUSY, _OWN = "out-of-device-memory", "device-busy-occupied", "device-oom-own"


@dataclass(frozen=True)
class Spot:
    """A line of a file. `order`: the index of the file among all."""

    path: str
    order: int
    log_line: LogLine

    def sort_key(self) -> tuple[bool, float, int, int]:
        """What sorts spots: errors before warnings, then by time; a line without a time after those with."""
        moment = self.log_line.moment
        return (
            self.log_line.is_mild,
            float("inf") if moment is None else moment,
            self.order,
            self.log_line.line,
        )

    def is_same_line(self, other: Spot) -> bool:
        """Whether both are one line of one file."""
        return (self.path, self.log_line.line) == (other.path, other.log_line.line)


class Candidate:
    """A signature that was found. `low`: only in lines that call themselves warnings; `survived`: wherever it
    was, the job went on; `passed`: also where it only warned; `outlived`: the job went on until something
    else ended it; `silent`: a warning is the last word of a log."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.count = 0
        self.spots: list[Spot] = []
        self.is_mild = self.is_survived = self.is_passed = self.is_outlived = True
        self.is_last_word = False
        self.score = float(signature.weight)
        self.is_echo = False

    def add_file(self, evidence: Evidence, order: int, match: SignatureMatch, ending: LogEnding) -> None:
        """Add what one file says of this signature. `order`: the index of the file among all."""
        self.count += match.count
        log_lines = [*match.ranks.values(), *(() if match.last is None else (match.last,))]
        # A job that was ended from outside may be started again by the same: how it went on does not count.
        weight = None if self.is_from_outside else self.signature.weight
        if self.is_from_outside and match.final is not None:
            log_lines.append(match.final)
        # A signal that ends the job is not a warning, whatever level the job's log gives it.
        live = [
            line
            for line in log_lines
            if (self.is_from_outside or not line.is_mild) and not ending.has_survived(line, weight)
        ]
        self.spots += [Spot(evidence.path, order, line) for line in live or match.ranks.values()]
        self.is_mild = self.is_mild and match.last is None and not self.is_from_outside
        self.is_survived = self.is_survived and not live
        self.is_passed = self.is_passed and all(ending.has_survived(line, weight) for line in log_lines)
        self.is_outlived = self.is_outlived and all(ending.has_outlived(line) for line in live)
        self.is_last_word = self.is_last_word or ending.is_last_word(match.final)

    @property
    def first(self) -> Spot:
        """Where it was first."""
        return min(self.spots, key=Spot.sort_key)

    @property
    def last(self) -> Spot:
        """Where it was last, as far as that is known."""
        return max(self.spots, key=lambda spot: (spot.order, spot.log_line.offset))

    @property
    def is_failure(self) -> bool:
        """Whether it is a failure by itself: an error after which nothing went on."""
        return not self.is_mild and not self.is_survived

    @property
    def is_from_outside(self) -> bool:
        """Whether it says that the job was ended from outside."""
        return self.signature.category == OUTSIDE

    def locations(self) -> set[tuple[str, Optional[int]]]:
        """The files and ranks in which it was."""
        return {(spot.path, spot.log_line.rank) for spot in self.spots}


def collect_candidates(
    signatures: Sequence[Signature], files: Sequence[tuple[Evidence, LogEnding]]
) -> list[Candidate]:
    """What was found in all files; what must or must not be elsewhere in a file is asked here."""
    candidate_by_owner: dict[int, Candidate] = {}
    for order, (evidence, ending) in enumerate(files):
        for owner, match in evidence.matches.items():
            signature = signatures[owner]
            lacks = not signature.within and signature.near and (owner, NEAR) not in evidence.aside
            if not lacks and (owner, WITHOUT) not in evidence.aside:
                candidate_by_owner.setdefault(owner, Candidate(signature)).add_file(
                    evidence, order, match, ending
                )
    # Whose memory it is, is asked of the numbers, for all frameworks alike: a card on which others hold it is
    # busy. Where there are none it is the job's own, as its signature says; only they prove it.
    rows = {signature.id: signature for signature in signatures if signature.id in (_BUSY, _OWN)}
    for candidate in candidate_by_owner.values():
        if candidate.signature.category == _SPENT:
            texts = [spot.log_line.text for spot in candidate.spots]
            busy = any(map(is_held_elsewhere, texts))
            row = rows.get(_BUSY if busy else _OWN)
            if row is not None and (busy or any(map(is_held_by_job, texts))):
                candidate.signature, candidate.score = row, float(row.weight)
    return list(candidate_by_owner.values())
