"""Warnings that are the cause of a failure later on: a framework says at its start that it can use no device,
or that a part of it could not be loaded, goes on without, and fails where it needs that."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.core.lazy import pattern
from npudoctor.explain.ranking.candidates import Candidate
from npudoctor.explain.ranking.ending import LogEnding
from npudoctor.explain.scanning.evidence import Evidence

# What was warned of, and what then fails of it.
_PAIRS = (
    (
        pattern(
            r"(?i)CUDA initialization: |CUDA unknown error|No CUDA GPUs|CUDA driver version is insufficient"
            r"|no CUDA-capable device|NPU initialization: |aclInit.{0,40}fail"
        ),
        pattern(
            r"(?i)\b(?:no|any|need an?|needs an?|requires? an?|without an?) (?:\w+ ){0,2}"
            r"(?:GPUs?|NPUs?|accelerators?)\b"
            r"|(?:GPUs?|NPUs?|CUDA|accelerators?)\b.{0,20} (?:not (?:found|available|detected)|unavailable)"
            r"|not (?:implemented|supported) for .{0,30}\b(?:device|CPU)\b"
        ),
    ),
    (
        pattern(r"(?i)failed to (?:import|load)\b.{0,80}\b_\w*C\w*\b.{0,80}cannot open shared object"),
        pattern(r"\b_\w*C\b"),
    ),
)


def promote_warnings(candidates: Sequence[Candidate], files: Sequence[tuple[Evidence, LogEnding]]) -> None:
    """Let what was warned of be the failure, where the process died of just that."""
    deaths = [
        (order, log_line)
        for order, (_evidence, ending) in enumerate(files)
        for name, log_line in ending.failures
        if name == "exception"
    ]
    for candidate in candidates:
        if candidate.is_failure or not candidate.signature.environment:
            continue
        for warned, failed in _PAIRS:
            if any(
                spot.order == order
                and spot.log_line.offset < log_line.offset
                and failed.search(log_line.text)
                for spot in candidate.spots
                if warned.search(spot.log_line.text)
                for order, log_line in deaths
            ):
                candidate.is_mild = candidate.is_survived = candidate.is_passed = candidate.is_outlived = (
                    False
                )
