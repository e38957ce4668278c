"""Judges which finding is the root cause, which only follow from it, and whether anything failed at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.explain.ranking.candidates import Candidate, Spot, collect_candidates
from npudoctor.explain.ranking.diagnosis import LEAST, Diagnosis
from npudoctor.explain.ranking.ending import LogEnding
from npudoctor.explain.ranking.fallback import find_fallback
from npudoctor.explain.ranking.outside import weigh_endings
from npudoctor.explain.ranking.runs import EarlierRun, find_earlier_runs
from npudoctor.explain.ranking.warned import promote_warnings
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.signatures.failures import WORDS
from npudoctor.explain.signatures.return_numbers import explain_number, number_in
from npudoctor.explain.signatures.signatures import Signature

# What ranks write that wait for another one; the one that says something else is looked at first.
_WAITING = ("hccl-timeout-desync", "network-hccl-link-or-ip")
_APART = (*_WAITING, "port-or-firewall-or-address-in-use", "nccl-gpu-env")
# So many first errors are shown.
_ERRORS = 8
_OUTLIVED = 17
_SILENT = 40  # the least that a warning weighs that is the last word of a log
_PLAIN = 18  # the least that an exception of a known kind weighs


@dataclass(frozen=True)
class Judgement:
    """`verdict`: environment, not_environment, unknown, clean. `errors`: the first lines that say that
    something failed. `runs`: those before the last one of a file, which alone is judged. `elsewhere`: the
    signature that tells where the cause is written, if it is not in what was read."""

    verdict: str
    diagnoses: tuple[Diagnosis, ...]
    errors: tuple[Spot, ...]
    runs: tuple[EarlierRun, ...] = ()
    elsewhere: Optional[Signature] = None


def judge(signatures: Sequence[Signature], evidence: Sequence[Evidence]) -> Judgement:
    """Judge the evidence of all files together."""
    files = [(file, LogEnding(file)) for file in evidence]
    candidates = collect_candidates(signatures, files)
    promote_warnings(candidates, files)
    errors, runs = _first_errors(files), find_earlier_runs(signatures, files)
    # A warning that is the last word of a log may tell why that ended.
    last_words = [
        candidate
        for candidate in candidates
        if candidate.is_last_word
        and candidate.signature.category in (*_APART, "missing-library")
        and candidate.signature.weight >= _SILENT
    ]
    # Where only the last words of the logs say that something failed, a warning far before is no cause.
    only_words = all(name == WORDS for _file, ending in files for name, _seen in ending.failures)
    if errors and only_words and not any(candidate.is_failure for candidate in candidates):
        candidates = last_words
    if not errors and not any(
        candidate.is_failure and candidate.signature.weight >= LEAST for candidate in candidates
    ):
        candidates = last_words
        if not candidates:
            return Judgement("clean", (), (), runs)
    _weigh(candidates, next((file.root for file in evidence if file.root is not None), None))
    # A warning says why a node cannot be reached; of an exception that nobody knows it is no cause.
    if any(name in ("exception", "crash") for _file, ending in files for name, _seen in ending.failures):
        for candidate in candidates:
            if not candidate.is_failure and candidate.signature.category not in _APART:
                candidate.score = min(candidate.score, LEAST - 1)
    weigh_endings(candidates, files)
    candidates.sort(key=lambda candidate: (-candidate.score, candidate.first.sort_key()))
    if not candidates or candidates[0].score < LEAST:
        candidates = [*find_fallback(signatures, files), *candidates]
    diagnoses = tuple(map(_make_diagnosis, candidates))
    best = candidates[0] if candidates and candidates[0].score >= LEAST else None
    # Who only noticed that another process was gone tells where that one's words are.
    echoes = [candidate for candidate in candidates if candidate.signature.consequence]
    if best is not None and best.signature.fallback:
        echoes = [echo for echo in echoes if _is_at(best, echo)]
    if best is None or (best.signature.fallback and echoes):
        return Judgement("unknown", diagnoses, errors, runs, echoes[0].signature if echoes else None)
    verdict = "environment" if best.signature.environment else "not_environment"
    return Judgement(verdict, diagnoses, errors, runs, best.signature if best.signature.elsewhere else None)


def _is_at(guess: Candidate, echo: Candidate) -> bool:
    """Whether a fallback was found by a line that is of another one."""
    return any(guess.first.is_same_line(spot) for spot in echo.spots)


def _first_errors(files: Sequence[tuple[Evidence, LogEnding]]) -> tuple[Spot, ...]:
    """The first lines that say that something failed: what the process itself says before its launcher."""
    named_spots = [
        (name, Spot(evidence.path, order, log_line))
        for order, (evidence, ending) in enumerate(files)
        for name, log_line in ending.failures
    ]
    later = ("launcher", "traceback", WORDS)  # the first line of a traceback says nothing yet
    named_spots.sort(key=lambda mark: (mark[0] in later, mark[1].sort_key()))
    spots = {(spot.path, spot.log_line.line): spot for _name, spot in named_spots}
    return tuple(list(spots.values())[:_ERRORS])


def _make_diagnosis(candidate: Candidate) -> Diagnosis:
    signature = candidate.signature
    certain = signature.proven and candidate.score >= 80 and not candidate.is_mild
    confidence = "certain" if certain else "likely" if candidate.score >= 30 else "possible"
    if signature.numbered:
        # One of nothing but return numbers says what the number means that is in its line.
        signature = explain_number(signature, number_in(signature, candidate.first.log_line.text))
    return Diagnosis(signature, confidence, candidate.first, candidate.count, candidate.last)


def _weigh(candidates: Sequence[Candidate], root: Optional[int]) -> None:
    """Score candidates by their weight and their place. `root`: the rank that failed first, if known."""
    failed = any(candidate.is_failure for candidate in candidates)
    present = {candidate.signature.id for candidate in candidates if not (candidate.is_mild and failed)}
    for candidate in candidates:
        first, ranks = candidate.first.log_line, {spot.log_line.rank for spot in candidate.spots}
        candidate.score -= 5 if candidate.is_mild else 20 if candidate.is_survived else 0
        candidate.score += 4 * first.is_direct_cause - 6 * first.is_handled
        if root is not None:
            candidate.score += 6 if root in ranks else 0 if None in ranks else -10
        candidate.is_echo = bool(present & set(candidate.signature.echo_of))
        if candidate.is_echo or candidate.signature.consequence:  # neither is a cause
            candidate.score = min(candidate.score, LEAST - 1)
    # Whether one of them ended the job, and is not what a node says that cannot reach another one: why it
    # cannot may stand in a warning. A mere return number says only where the end was noticed.
    ended = any(
        candidate.is_failure
        and candidate.signature.category not in _APART
        and not (candidate.is_echo or candidate.signature.numbered or candidate.is_outlived)
        and candidate.score >= LEAST
        for candidate in candidates
    )
    for candidate in candidates:
        # A warning, or an error that the job outlived, is no match for what ended it.
        if ended and not candidate.is_failure:
            candidate.score = min(candidate.score, _OUTLIVED)
        if candidate.is_passed or (ended and candidate.is_outlived):
            candidate.score = min(candidate.score, LEAST - 1)
    waiting = [
        candidate
        for candidate in candidates
        if candidate.signature.category in _WAITING and candidate.signature.weight <= 60
    ]
    for candidate in waiting:
        if any(_is_earlier(other, candidate) for other in candidates if other not in waiting):
            candidate.score = min(candidate.score, LEAST + 2)


def _is_earlier(other: Candidate, waiting: Candidate) -> bool:
    """Whether another error of its own came before a rank began to wait, on a rank that does not."""
    if other.is_echo or other.signature.numbered or not other.is_failure or other.score < _PLAIN:
        return False
    error, wait = other.first, waiting.first
    if error.order == wait.order and error.log_line.rank == wait.log_line.rank:
        return error.log_line.line < wait.log_line.line
    if error.log_line.moment is not None and wait.log_line.moment is not None:
        return error.log_line.moment <= wait.log_line.moment
    return not other.locations() <= waiting.locations()
