"""A whole `npudoctor check` is cheaper than the precheck of msprechecker, the vendor's tool."""

from __future__ import annotations

import json
import shutil
from collections import Counter

from benchmarks.promise import CHECKOUT, CannotMeasureError, Command, Output, Promise
from benchmarks.timing import SYSTEM_PATH

HELPERS = ("lscpu", "dmidecode", "cpupower", "lshw")
"""Programs that msprechecker starts where they exist: each makes it dearer, so the report names them."""


def is_a_whole_report(output: Output) -> str:
    """A report that agrees with the exit status and has rows: a crash or an empty selection would be fast."""
    try:
        report = json.loads(output.stdout)
        rows = Counter(str(row["status"]) for row in report["results"])
        schema, status = report["schema"], report["exit_code"]
    except (ValueError, KeyError, TypeError) as error:
        told = (output.stderr.decode(errors="replace").strip().splitlines() or [repr(error)])[-1]
        raise CannotMeasureError(f"no report from npudoctor check, status {output.status}: {told}") from error
    if schema != "npudoctor.report/1" or status != output.status or not rows:
        told = f"{schema!r}, exit_code {status!r}, status {output.status}, {sum(rows.values())} results"
        raise CannotMeasureError(f"npudoctor check made no whole report: {told}")
    counts = ", ".join(f"{count} {name}" for name, count in rows.most_common())
    return f"{sum(rows.values())} results: {counts}"


def is_a_precheck(output: Output) -> str:
    """It reports on stderr."""
    reports = output.stderr.count(b" CHECK REPORT ")
    if not reports:
        raise CannotMeasureError("msprechecker precheck printed no report")
    present = [name for name in HELPERS if shutil.which(name, path=SYSTEM_PATH)]
    return f"{reports} reports; of {', '.join(HELPERS)} it could start {', '.join(present) or 'none'}"


# As root the trial is left out, unless somebody says whose job it is: its price is a promise of its own.
CHECK = ("npudoctor", "check", "--format", "json")
PRECHECK = ("msprechecker", "precheck")

PROMISE = Promise(
    ours=Command(CHECKOUT, CHECK, frozenset({0, 1, 2}), is_a_whole_report),
    theirs=Command("msprechecker==0.4.0", PRECHECK, frozenset({0}), is_a_precheck),
    at_most=1.0,  # one build measured 0.84 to 0.97 within a day, as the machine had more or less to look at
    aim=0.6,
    runs=15,
)
