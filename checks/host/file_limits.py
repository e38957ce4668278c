"""How many files may a process of this shell have open?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import INFO, WARNING, Action, Command, Facts, Finding, Fix, Host, Risk, Scope, _, check
from npudoctor.host.limits import limit_of

ENOUGH, FEW = 65536, 4096
RECOMMENDED = 512000
LIMITS = "/etc/security/limits.d/90-npudoctor.conf"


@check(
    "file-limits",
    scope=Scope.JOB,
    codes={"file-limits.low": WARNING, "file-limits.below-guide": INFO},
)
def file_limits(host: Host) -> Iterator[Union[Finding, Facts]]:
    """A process of this shell may have enough files open.

    ## What it does

    Reads the limit of open files (`ulimit -n`) that a job started from here inherits; with `--env-of PID` the
    one of that process. Ascend's guides recommend 512000; it is quiet from 65536.

    - `file-limits.low`: below 4096.
    - `file-limits.below-guide`: from 4096, and below 65536.

    A shell may raise its own soft limit up to the hard limit. Above that only root can, for sessions to come;
    a container gets its limits when it is made.

    ## Why it matters

    Data loaders, sockets to every rank and mapped files share the limit. Where it is reached, a job of many
    ranks ends with "Too many open files", often long after its start.

    ## Fix safety

    Shown only: a limit is the shell's own, and no child can raise it for its parent.

    ## References

    Ascend guide to porting and training PyTorch models (`ulimit -SHn 512000`); getrlimit(2);
    limits.conf(5); systemd.exec(5), LimitNOFILE.
    """
    limit = limit_of(host, "Max open files")
    yield Facts({"soft": limit.soft, "hard": limit.hard})
    if limit.soft is None or limit.soft >= ENOUGH:
        return
    text = _("a process may have {soft} files open; the guide recommends {recommended}")
    low = limit.soft < FEW
    yield Finding(
        "file-limits.low" if low else "file-limits.below-guide",
        text.format(soft=limit.soft, recommended=RECOMMENDED),
        evidence=(f"ulimit -Sn {limit.soft}, ulimit -Hn {_hard(limit.hard)}",),
        action=Action.CONFIG if low else Action.NONE,
        fix=_fix(host, limit.hard),
    )


def _hard(hard: Optional[int]) -> str:
    return "unlimited" if hard is None else str(hard)


def _fix(host: Host, hard: Optional[int]) -> Fix:
    """What raises it here; where the hard limit is too low, only root may, for sessions to come."""
    if hard is None or hard >= ENOUGH:
        number = RECOMMENDED if hard is None else min(hard, RECOMMENDED)
        steps = (Command(("ulimit", "-Sn", str(number))),)
        title = _("raise the limit in the shell that starts the job")
        return Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=False)
    if host.system.container():
        title = _("make the container anew with more: docker run --ulimit nofile={number}:{number}")
        return Fix(title.format(number=RECOMMENDED), risk=Risk.MANUAL)
    # The star is for everybody but root.
    rows = "".join(rf"{who} - nofile {RECOMMENDED}\n" for who in ("*", "root"))
    title = _("raise both limits as root, then log in anew; a service wants LimitNOFILE instead")
    step = Command(("sh", "-c", f'printf "{rows}" > {LIMITS}'))
    return Fix(title, steps=(step,), undo=(f"rm -- {LIMITS}",), risk=Risk.MANUAL)
