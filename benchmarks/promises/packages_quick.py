"""In profile quick the packages of the environment cost nothing: no list of files is read."""

from __future__ import annotations

import json

from benchmarks.promise import CHECKOUT, CannotMeasureError, Command, Output, Promise
from benchmarks.promises.check import is_a_whole_report
from benchmarks.promises.packages import OTHERS, READING, STATUSES, judged_nothing_of_them

QUICK = ("--profile", "quick", "--expect", "none", "--format", "json")


def read_no_list(output: Output) -> str:
    """The dear ones were left out, and say so."""
    told = is_a_whole_report(output)
    rows = {row["check"]: row["reason"] for row in json.loads(output.stdout)["results"]}
    if rows["package-files"] != "not in the profile quick":
        raise CannotMeasureError(f"package-files in profile quick: {rows['package-files']!r}")
    return f"{told}; of {len(READING)} checks of packages package-files was left out"


PROMISE = Promise(
    ours=Command(CHECKOUT, ("npudoctor", "check", *QUICK), STATUSES, read_no_list),
    theirs=Command(
        CHECKOUT,
        ("npudoctor", "check", *OTHERS, *QUICK),
        STATUSES,
        judged_nothing_of_them,
        shown="npudoctor check --profile quick, without the checks of packages",
    ),
    at_most=1.15,  # nothing is wanted; what noise makes of that
    aim=1.05,
    runs=15,
    in_packages=True,
)
