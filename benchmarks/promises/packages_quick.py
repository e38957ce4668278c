"""Profile quick judges the packages too, and what that costs is what it costs in full."""

from __future__ import annotations

from benchmarks.promise import CHECKOUT, Command, Promise
from benchmarks.promises.packages import OTHERS, STATUSES, judged_nothing_of_them, judged_the_packages

QUICK = ("--profile", "quick", "--expect", "none", "--format", "json")


PROMISE = Promise(
    ours=Command(CHECKOUT, ("npudoctor", "check", *QUICK), STATUSES, judged_the_packages),
    theirs=Command(
        CHECKOUT,
        ("npudoctor", "check", *OTHERS, *QUICK),
        STATUSES,
        judged_nothing_of_them,
        shown="npudoctor check --profile quick, without the checks of packages",
    ),
    at_most=1.5,  # as in full: what is read from files belongs to both
    aim=1.25,
    runs=15,
    in_packages=True,
)
