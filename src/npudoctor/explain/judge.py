"""Which of all that was found is the root, and which only its echo; and whether anything failed at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.explain.candidates import Candidate, Spot, candidates_of
from npudoctor.explain.ending import Ending
from npudoctor.explain.evidence import Evidence
from npudoctor.explain.signatures import Signature
from npudoctor.frozen import dataclass

# Below this nothing is said to be the cause: it only tells that something failed.
LEAST = 10
# What ranks write that wait for another one; the one that says something else is looked at first.
_WAITING = ("hccl-timeout-desync", "network-hccl-link-or-ip")
_APART = (*_WAITING, "port-or-firewall-or-address-in-use", "nccl-gpu-env")
_ERRORS = 8
_OUTLIVED = 17
_PLAIN = 18  # the least that an exception of a known kind weighs


@dataclass(frozen=True)
class Diagnosis:
    """A signature that was found, how certain it is the cause, and where it was first."""

    signature: Signature
    confidence: str  # certain, likely, possible
    first: Optional[Spot]
    count: int


@dataclass(frozen=True)
class Judgement:
    """`verdict`: environment, not_environment, unknown, clean. `errors`: the first lines that say that
    something failed."""

    verdict: str
    diagnoses: tuple[Diagnosis, ...]
    errors: tuple[Spot, ...]


def judge(signatures: Sequence[Signature], evidence: Sequence[Evidence]) -> Judgement:
    """What all files say together."""
    files = [(one, Ending(one)) for one in evidence]
    found = candidates_of(signatures, files)
    errors = _errors(files)
    if not errors and not any(one.failed and one.signature.weight >= LEAST for one in found):
        return Judgement("clean", (), ())
    _weigh(found, next((one.root for one in evidence if one.root is not None), None))
    found.sort(key=lambda one: (-one.score, one.first.first_key()))
    diagnoses = tuple(_diagnosis(one) for one in found)
    if not found or found[0].score < LEAST:
        return Judgement("unknown", diagnoses, errors)
    known = "environment" if found[0].signature.environment else "not_environment"
    return Judgement(known, diagnoses, errors)


def _errors(files: Sequence[tuple[Evidence, Ending]]) -> tuple[Spot, ...]:
    """The first lines that say that something failed: what the process itself says before its launcher."""
    found = [
        (name, Spot(evidence.path, order, seen))
        for order, (evidence, ending) in enumerate(files)
        for name, seen in ending.failures()
    ]
    later = ("launcher", "traceback")  # the first line of a traceback says nothing yet
    found.sort(key=lambda one: (one[0] in later, one[1].first_key()))
    spots = {(spot.path, spot.seen.line): spot for _name, spot in found}
    return tuple(list(spots.values())[:_ERRORS])


def _diagnosis(one: Candidate) -> Diagnosis:
    certain = one.score >= 80 and not one.low
    confidence = "certain" if certain else "likely" if one.score >= 30 else "possible"
    return Diagnosis(one.signature, confidence, one.first, one.count)


def _weigh(found: Sequence[Candidate], root: Optional[int]) -> None:
    """Give each its score: its weight, and what its place says."""
    present = {one.signature.id for one in found if not one.low or not any(other.failed for other in found)}
    for one in found:
        first = one.first
        one.echo = bool(present & set(one.signature.echo_of))
        one.score += sum(_shifts(one, first, root))
        if one.echo:
            one.score = min(one.score, LEAST - 1)
    if any(_ended(other) for other in found):
        for one in found:
            if not one.failed:  # a warning, or an error that the job outlived, is no match for what ended it
                one.score = min(one.score, _OUTLIVED)
    for one in found:
        if _waits(one) and any(_earlier(other, one) for other in found):
            one.score = min(one.score, LEAST + 2)


def _shifts(one: Candidate, first: Spot, root: Optional[int]) -> Iterator[float]:
    if one.low:
        yield -5
    elif one.survived:
        yield -20
    if first.seen.handled:
        yield -6
    if first.seen.cause:
        yield 4
    ranks = {spot.seen.rank for spot in one.spots}
    if root is not None and root in ranks:
        yield 6
    elif root is not None and None not in ranks:
        yield -10


def _ended(one: Candidate) -> bool:
    """Whether this ended the job, and is not what a node says that cannot reach another one: why it cannot
    may stand in a warning."""
    if one.signature.category in _APART or one.echo:
        return False
    return one.failed and one.score >= LEAST


def _waits(one: Candidate) -> bool:
    signature = one.signature
    return signature.category in _WAITING and signature.weight <= 60


def _earlier(other: Candidate, waiting: Candidate) -> bool:
    """Whether another error of its own came before a rank began to wait, on a rank that does not."""
    if _waits(other) or other.echo or not other.failed or other.score < _PLAIN:
        return False
    mine, theirs = other.first, waiting.first
    if mine.order == theirs.order and mine.seen.rank == theirs.seen.rank:
        return mine.seen.line < theirs.seen.line
    if mine.seen.moment is not None and theirs.seen.moment is not None:
        return mine.seen.moment <= theirs.seen.moment
    return not other.where() <= waiting.where()
