"""What is said of a failure that no signature knows: what the line speaks of that ended the job. It is
never more than possible, and it is asked only when there is nothing better."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.explain.ranking.candidates import Candidate, Spot
from npudoctor.explain.ranking.ending import LogEnding
from npudoctor.explain.scanning.evidence import Evidence, LogLine
from npudoctor.explain.scanning.last_words import is_traceback_line
from npudoctor.explain.signatures.failures import WORDS
from npudoctor.explain.signatures.recognise import compile_pattern
from npudoctor.explain.signatures.signatures import Signature

# Whose last word is believed first: the process that died, then what calls itself an error, then who
# started the process. The first line of a traceback says nothing but that there is one.
_ORDER = ("exception", "crash", "engine", "stillborn", "cann", "level", WORDS, "launcher")


def find_fallback(
    signatures: Sequence[Signature], files: Sequence[tuple[Evidence, LogEnding]]
) -> list[Candidate]:
    """The row for the line that ended the job, if there is such a line and such a row."""
    # The lines after which nothing went on, each with how late it is asked. That the job was told to end is
    # known: such a line has a row of its own.
    launchers = {
        (order, log_line.offset)
        for order, (_evidence, ending) in enumerate(files)
        for name, log_line in ending.failures
        if name == "launcher"
    }

    def lateness(order: int, name: str, log_line: LogLine) -> int:
        if (order, log_line.offset) in launchers:  # whatever else its words look like
            name = "launcher"
        rank = _ORDER.index(name) if name in _ORDER else 2 * len(_ORDER)
        return rank + len(_ORDER) * (is_traceback_line(log_line.text) or log_line.is_handled)

    spots = [
        (
            lateness(order, name, log_line),
            Spot(evidence.path, order, log_line),
        )
        for order, (evidence, ending) in enumerate(files)
        for name, log_line in ending.failures
        if name != "ended"
    ]
    if not spots:
        return []
    _late, spot = min(spots, key=lambda spot: (spot[0], -spot[1].order, -spot[1].log_line.offset))
    text = "" if is_traceback_line(spot.log_line.text) else spot.log_line.text
    for row in signatures:
        if (
            row.fallback
            and any(compile_pattern(pattern).search(text) for pattern in row.patterns)
            and not any(compile_pattern(pattern).search(text) for pattern in row.without)
        ):
            candidate = Candidate(row)
            candidate.count, candidate.spots = 1, [spot]
            candidate.is_mild = candidate.is_survived = candidate.is_passed = candidate.is_outlived = False
            return [candidate]
    return []
