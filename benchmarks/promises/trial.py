"""The trial of a job's first minute is cheaper than the precheck of msprechecker, which tries nothing."""

from __future__ import annotations

import json
import os

from benchmarks.promise import CHECKOUT, CannotMeasureError, Command, Output, Promise
from benchmarks.promises.check import PRECHECK, is_a_precheck, is_a_whole_report

PARTS = ("rendezvous", "processes", "memory", "shared-memory", "files", "python")
CHECKS = tuple(f"trial-{part}" for part in PARTS)


def was_tried(output: Output) -> str:
    """Each part tried something, and the kernel gave it."""
    told = is_a_whole_report(output)
    rows = {row["check"]: row for row in json.loads(output.stdout)["results"]}
    odd = {name: rows[name]["status"] for name in CHECKS if rows[name]["status"] != "ok"}
    if odd:
        raise CannotMeasureError(f"the trial was not well: {odd}: {rows[next(iter(odd))]['findings'][:1]}")
    return told


PROMISE = Promise(
    ours=Command(
        CHECKOUT,
        # As root it asks whose job it is: root may enter the folders of this measurement.
        (
            *("npudoctor", "check", *CHECKS, "--expect", "none", "--format", "json"),
            *(("--as-user", "root") if os.geteuid() == 0 else ()),
        ),
        frozenset({0}),
        was_tried,
        shown="npudoctor check trial-...",
    ),
    theirs=Command("msprechecker==0.4.0", PRECHECK, frozenset({0}), is_a_precheck),
    at_most=1.0,
    runs=15,
)
