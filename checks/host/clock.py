"""Is the clock of this machine kept right?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Command,
    Compared,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Unknown,
    _,
    check,
)

FIRST = 1704067200  # 2024-01-01, before anything that this version knows of
DAY = 86400


@check(
    "clock",
    scope=Scope.NODE,
    codes={"clock.unsynchronised": INFO, "clock.wrong": WARNING},
    compares=(Compared("synchronised", "clock synchronised"),),
)
def clock(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The clock is correct and synchronized.

    ## What it does

    Asks the kernel whether its clock is synchronized (adjtimex, read only).

    - `clock.unsynchronised`: the kernel's clock is not marked as synchronized. chrony without `rtcsync` looks
      the same, so this is information.
    - `clock.wrong`: the clock shows a date before this software was made.

    ## Why it matters

    The logs of the ranks are ordered by their timestamps, so a wrong clock makes the wrong error look like
    the first one. Certificates and tokens are rejected when the clock is far off.

    ## Fix safety

    Shown only.

    ## References

    adjtimex(2); chronyc(1); timedatectl(1).
    """
    now = host.clock.now()
    if now < FIRST:
        text = _("the clock is wrong: it is {days} days before 2024")
        yield Finding(
            "clock.wrong",
            text.format(days=round((FIRST - now) / DAY)),
            action=Action.CONFIG,
            fix=_inspection_fix(host),
        )
    # adjtimex(2), read only: NTP daemons clear STA_UNSYNC in the kernel; chrony does so only with `rtcsync`.
    is_synchronised = host.clock.is_synchronised()
    yield Facts({"synchronised": is_synchronised})
    if is_synchronised is None:
        raise Unknown(_("could not determine whether the kernel's clock is synchronized"), advisory=True)
    if not is_synchronised:
        text = _("the kernel's clock is not marked as synchronized: no NTP, or chrony without rtcsync")
        yield Finding("clock.unsynchronised", text, action=Action.CONFIG, fix=_inspection_fix(host))


def _inspection_fix(host: Host) -> Optional[Fix]:
    """Return the commands that say more about the clock; None if neither tool is installed."""
    tools = (("timedatectl", "status"), ("chronyc", "tracking"))
    steps = tuple(Command(argv) for argv in tools if host.commands.find(argv[0]))
    return (
        Fix(_("check which service synchronizes the clock"), steps=steps, risk=Risk.MANUAL, needs_root=False)
        if steps
        else None
    )
