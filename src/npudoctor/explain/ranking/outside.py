"""Endings from outside: whether one of them is the answer, or only follows a failure of the job itself."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.core.lazy import pattern
from npudoctor.explain.ranking.candidates import Candidate, Spot
from npudoctor.explain.ranking.ending import LogEnding
from npudoctor.explain.scanning.evidence import Evidence

_STRONG = 60  # what weighs so much comes to a job however well it is
_CERTAIN = 100  # more than anything else weighs
_FOLLOWS = 9  # less than what names a cause
_CANCELLED = "slurm-cancelled"
_PLAIN = 10  # the least that a cause weighs
# What a process says that was ended by the same signal.
_BY_SIGNAL = pattern(
    r"(?i)signal: (?:terminated|interrupt|killed)|SIGTERM|SIGINT|KeyboardInterrupt|CancelledError"
    r"|pickle data was truncated|termination signal"
    r"|with signal (?:15|2|9)\b|signal (?:15|2|9) |death signal|^Killed$|^Terminated$"
)
# What a launcher says of the process that it started: how that ended stands in the lines after it.
_OF_LAUNCHER = pattern(r"\b(?:ChildFailedError|CalledProcessError|ProcessExitedException)\b")
# A task of a step that ended by itself, whereupon srun cancels the others.
_OF_TASK = pattern(r"^srun: error: .{1,80}: tasks? [\d,-]+: Exited with exit code (?!143|137|130|15\b)\d")

Files = Sequence[tuple[Evidence, LogEnding]]


def weigh_endings(candidates: Sequence[Candidate], files: Files) -> None:
    """Let what ended a job from outside come first, unless the job had failed before."""
    for end in candidates:
        if not end.is_from_outside or not end.is_failure or end.is_echo:
            continue
        is_weak = end.signature.weight < _STRONG
        if not is_weak or not _is_after_failure(end, candidates, files):
            end.score += _CERTAIN
            continue
        end.score = _FOLLOWS
        # Another signature that matched only these same lines describes the same ending, not its cause.
        lines = {(spot.path, spot.log_line.line) for spot in end.spots}
        for other in candidates:
            if (
                not other.is_from_outside
                and {(spot.path, spot.log_line.line) for spot in other.spots} <= lines
            ):
                other.score = min(other.score, _FOLLOWS)


def _is_after_failure(end: Candidate, candidates: Sequence[Candidate], files: Files) -> bool:
    """Whether the job had failed before it was ended, for a recognized or an unrecognized reason."""
    return _has_failed_before(end, candidates, files) or _has_unknown_failure_before(end, files)


def _has_failed_before(end: Candidate, candidates: Sequence[Candidate], files: Files) -> bool:
    """Whether something that is known ended the job before."""
    cancelled: dict[int, int] = {}  # in each file, where a scheduler cancelled the job
    if end.signature.id == _CANCELLED:
        for spot in end.spots:
            cancelled[spot.order] = min(spot.log_line.offset, cancelled.get(spot.order, spot.log_line.offset))
    for other in candidates:
        is_known_failure = other.is_failure and not (
            other.is_from_outside or other.is_echo or other.is_outlived or other.score < _PLAIN
        )
        for spot in other.spots if is_known_failure else ():
            # After an error of which no process died, the job may have said more until it was cancelled.
            until, ending = cancelled.get(spot.order), files[spot.order][1]
            went_on = until is not None and ending.has_gone_on(spot.log_line.offset, until)
            if not went_on and _is_before(spot, end.spots):
                return True
    return False


def _is_before(spot: Spot, ends: Sequence[Spot]) -> bool:
    """Whether a line is before an ending: in its file, or by the clocks; without them it is taken to be."""
    log_line = spot.log_line
    if log_line.is_handled or log_line.is_mild or log_line.is_teardown or _BY_SIGNAL.search(log_line.text):
        return False
    ends_in_file = [end.log_line for end in ends if end.order == spot.order]
    if ends_in_file:
        return any(log_line.offset < end.offset for end in ends_in_file)
    moments = [end.log_line.moment for end in ends if end.log_line.moment is not None]
    return log_line.moment is None or not moments or log_line.moment <= max(moments)


def _has_unknown_failure_before(end: Candidate, files: Files) -> bool:
    """Whether the process itself said before that it failed, in words that nobody knows."""
    first: dict[int, int] = {}
    for spot in end.spots:
        first[spot.order] = min(spot.log_line.offset, first.get(spot.order, spot.log_line.offset))
    return any(
        (name in ("exception", "crash") or _OF_TASK.search(log_line.text))
        and log_line.offset < first.get(order, 0)
        and not (log_line.is_handled or log_line.is_teardown or ending.has_outlived(log_line))
        and not (_BY_SIGNAL.search(log_line.text) or _OF_LAUNCHER.search(log_line.text))
        for order, (_evidence, ending) in enumerate(files)
        for name, log_line in ending.failures
    )
