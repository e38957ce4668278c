"""Which of all that was found is the root, and which only its echo; and whether anything failed at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.ranking.candidates import Candidate, Spot, candidates_of
from npudoctor.explain.ranking.ending import Ending
from npudoctor.explain.ranking.fallback import fallback
from npudoctor.explain.ranking.outside import weigh_endings
from npudoctor.explain.ranking.runs import Run, earlier_runs
from npudoctor.explain.ranking.warned import take_warned
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.signatures.failures import WORDS
from npudoctor.explain.signatures.signatures import Signature

# Below this nothing is said to be the cause: it only tells that something failed.
LEAST = 10
# What ranks write that wait for another one; the one that says something else is looked at first.
_WAITING = ("hccl-timeout-desync", "network-hccl-link-or-ip")
_APART = (*_WAITING, "port-or-firewall-or-address-in-use", "nccl-gpu-env")
_ERRORS = 8
_OUTLIVED = 17
_SILENT = 40  # the least that a warning weighs that is the last word of a log
_PLAIN = 18  # the least that an exception of a known kind weighs


@dataclass(frozen=True)
class Diagnosis:
    """A signature that was found, how certain it is the cause, and where it was first."""

    signature: Signature
    confidence: str  # certain, likely, possible
    first: Optional[Spot]
    count: int
    last: Optional[Spot] = None


@dataclass(frozen=True)
class Judgement:
    """`verdict`: environment, not_environment, unknown, clean. `errors`: the first lines that say that
    something failed. `runs`: those before the last one of a file, which alone is judged."""

    verdict: str
    diagnoses: tuple[Diagnosis, ...]
    errors: tuple[Spot, ...]
    runs: tuple[Run, ...] = ()


def judge(signatures: Sequence[Signature], evidence: Sequence[Evidence]) -> Judgement:
    """What all files say together."""
    files = [(one, Ending(one)) for one in evidence]
    found = candidates_of(signatures, files)
    take_warned(found, files)
    errors, runs = _errors(files), earlier_runs(signatures, files)
    if errors and _only_words(files) and not any(one.failed for one in found):
        found = [one for one in found if one.silent and _tells(one.signature)]
    if not errors and not any(one.failed and one.signature.weight >= LEAST for one in found):
        found = [one for one in found if one.silent and _tells(one.signature)]
        if not found:
            return Judgement("clean", (), (), runs)
    _weigh(found, next((one.root for one in evidence if one.root is not None), None))
    _weigh_warnings(found, any(ending.died for _one, ending in files))
    weigh_endings(found, files)
    found.sort(key=lambda one: (-one.score, one.first.first_key()))
    if not found or found[0].score < LEAST:
        found = [*fallback(signatures, files), *found]
    diagnoses = tuple(_diagnosis(one) for one in found)
    if not found or found[0].score < LEAST:
        return Judgement("unknown", diagnoses, errors, runs)
    known = "environment" if found[0].signature.environment else "not_environment"
    return Judgement(known, diagnoses, errors, runs)


def _errors(files: Sequence[tuple[Evidence, Ending]]) -> tuple[Spot, ...]:
    """The first lines that say that something failed: what the process itself says before its launcher."""
    found = [
        (name, Spot(evidence.path, order, seen))
        for order, (evidence, ending) in enumerate(files)
        for name, seen in ending.failures()
    ]
    later = ("launcher", "traceback", WORDS)  # the first line of a traceback says nothing yet
    found.sort(key=lambda one: (one[0] in later, one[1].first_key()))
    spots = {(spot.path, spot.seen.line): spot for _name, spot in found}
    return tuple(list(spots.values())[:_ERRORS])


def _only_words(files: Sequence[tuple[Evidence, Ending]]) -> bool:
    """Whether only the last words of the logs say that something failed: a warning far before is no cause."""
    return all(name == WORDS for _evidence, ending in files for name, _seen in ending.failures())


def _diagnosis(one: Candidate) -> Diagnosis:
    certain = one.score >= 80 and not one.low
    confidence = "certain" if certain else "likely" if one.score >= 30 else "possible"
    return Diagnosis(_speaking(one), confidence, one.first, one.count, one.last)


def _speaking(one: Candidate) -> Signature:
    """The signature; one of nothing but return numbers says what the number means that is in its line."""
    if not one.signature.numbered:
        return one.signature
    from npudoctor.explain.signatures.return_numbers import number_in, of_number

    return of_number(one.signature, number_in(one.signature, one.first.seen.text))


def _weigh(found: Sequence[Candidate], root: Optional[int]) -> None:
    """Give each its score: its weight, and what its place says."""
    present = {one.signature.id for one in found if not one.low or not any(other.failed for other in found)}
    for one in found:
        first = one.first
        one.echo = bool(present & set(one.signature.echo_of))
        one.score += sum(_shifts(one, first, root))
        if one.echo:
            one.score = min(one.score, LEAST - 1)
    ended = any(_ended(other) for other in found)
    for one in found:
        # A warning, or an error that the job outlived, is no match for what ended it.
        if ended and not one.failed:
            one.score = min(one.score, _OUTLIVED)
        if one.passed or (ended and one.outlived):
            one.score = min(one.score, LEAST - 1)
    for one in found:
        if _waits(one) and any(_earlier(other, one) for other in found):
            one.score = min(one.score, LEAST + 2)


def _weigh_warnings(found: Sequence[Candidate], died: bool) -> None:
    """A warning says why a node cannot be reached; of an exception that nobody knows it is no cause."""
    for one in found:
        if died and not one.failed and one.signature.category not in _APART:
            one.score = min(one.score, LEAST - 1)


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
    may stand in a warning. A mere return number says only where the end was noticed."""
    if one.signature.category in _APART or one.echo or one.signature.numbered:
        return False
    return one.failed and not one.outlived and one.score >= LEAST


def _tells(signature: Signature) -> bool:
    """Whether a warning of it that is the last word of a log tells why that ended."""
    return signature.category in (*_APART, "missing-library") and signature.weight >= _SILENT


def _waits(one: Candidate) -> bool:
    signature = one.signature
    return signature.category in _WAITING and signature.weight <= 60


def _earlier(other: Candidate, waiting: Candidate) -> bool:
    """Whether another error of its own came before a rank began to wait, on a rank that does not."""
    if _waits(other) or other.echo or other.signature.numbered or not other.failed or other.score < _PLAIN:
        return False
    mine, theirs = other.first, waiting.first
    if mine.order == theirs.order and mine.seen.rank == theirs.seen.rank:
        return mine.seen.line < theirs.seen.line
    if mine.seen.moment is not None and theirs.seen.moment is not None:
        return mine.seen.moment <= theirs.seen.moment
    return not other.where() <= waiting.where()
