"""What the checks of installed packages cost where the environment is full: against all other checks."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.packages import PACKAGES
from benchmarks.promise import CHECKOUT, CannotMeasureError, Command, Output, Promise
from benchmarks.promises.check import is_a_whole_report

# They read the metadata and the lists of files of all that the frameworks require.
READING = ("package-files", "package-requirements", "protobuf-implementation", "virtual-environment")
CHECKS = Path(__file__).resolve().parents[2] / "checks"
OTHERS = tuple(
    name
    for name in sorted(path.stem.replace("_", "-") for path in CHECKS.glob("*/[!_]*.py"))
    if name not in READING and not (CHECKS / "deep" / f"{name.replace('-', '_')}.py").exists()
)


def judged_the_packages(output: Output) -> str:
    """They looked at the whole environment and are content with it."""
    told = is_a_whole_report(output)
    report = json.loads(output.stdout)
    rows = {row["check"]: row for row in report["results"]}
    odd = {name: rows[name]["status"] for name in READING[:2] if rows[name]["status"] != "ok"}
    if odd:
        findings = [one["message"] for name in odd for one in rows[name]["findings"]]
        raise CannotMeasureError(f"the environment is not what it should be: {odd}: {findings[:2]}")
    return f"{told}; {len(PACKAGES)} distributions with {sum(one.lines for one in PACKAGES)} files judged"


def judged_nothing_of_them(output: Output) -> str:
    """The others alone."""
    told = is_a_whole_report(output)
    rows = {row["check"] for row in json.loads(output.stdout)["results"]}
    if rows & {*READING}:
        raise CannotMeasureError(f"asked beside the others: {sorted(rows & {*READING})}")
    return told


STATUSES = frozenset({0, 1, 2})

PROMISE = Promise(
    ours=Command(
        CHECKOUT,
        ("npudoctor", "check", "--expect", "none", "--format", "json"),
        STATUSES,
        judged_the_packages,
    ),
    theirs=Command(
        CHECKOUT,
        ("npudoctor", "check", *OTHERS, "--expect", "none", "--format", "json"),
        STATUSES,
        judged_nothing_of_them,
        shown="npudoctor check, without the checks of packages",
    ),
    at_most=1.5,  # what holds on a machine that does other things too
    aim=1.25,  # 70 ms where all others take 200: what the files hold is looked into, not only their sizes
    runs=15,
    in_packages=True,
)
