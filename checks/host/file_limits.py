"""How many files may a process of this shell have open?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, WARNING, Action, Command, Facts, Finding, Fix, Host, Risk, Scope, _, check
from npudoctor.checks.host._file_limits_fixes import ENOUGH, RECOMMENDED, coming, raised
from npudoctor.host.limits import Limit, limit_of

FEW = 4096


@check(
    "file-limits",
    scope=Scope.JOB,
    codes={
        "file-limits.low": WARNING,
        "file-limits.below-guide": INFO,
        "file-limits.next-login": INFO,
    },
)
def file_limits(host: Host) -> Iterator[Union[Finding, Facts]]:
    """A process of this shell may have enough files open.

    ## What it does

    Reads the limit of open files (`ulimit -n`) that a job started from here inherits; with `--env-of PID` the
    one of that process. Ascend's guides recommend 512000; it is quiet from 65536.

    - `file-limits.low`: below 4096.
    - `file-limits.below-guide`: from 4096, and below 65536.
    - `file-limits.next-login`: too low, but limits.conf or limits.d gives enough to the next login.

    A shell may raise its own soft limit up to the hard limit. Above that only root can, for sessions to come;
    a service gets its limits from its unit, a Slurm job from slurmd or the shell that submitted it, and a
    container when it is made.

    ## Why it matters

    Data loaders, sockets to every rank and mapped files share the limit. Where it is reached, a job of many
    ranks ends with "Too many open files", often long after its start.

    ## Fix safety

    What the shell may do itself is shown only: no child can raise a limit for its parent. For logins,
    /etc/security/limits.d/90-npudoctor.conf is written where pam_limits is in use, with CAUTION: a program
    that closes every possible descriptor starts more slowly. It never asks for more than fs.nr_open, as no
    session could be opened then. `npudoctor undo` takes it back; sessions that are open keep what they have.

    ## References

    Ascend guide to porting and training PyTorch models (`ulimit -SHn 512000`); getrlimit(2);
    limits.conf(5), pam_limits(8); systemd.exec(5), LimitNOFILE.
    """
    limit = limit_of(host, "Max open files")
    yield Facts({"soft": limit.soft, "hard": limit.hard})
    if limit.soft is None or limit.soft >= ENOUGH:
        return
    low = limit.soft < FEW
    then = None if _may_raise_itself(limit) else coming(host)
    if then and then.soft is not None and then.soft >= ENOUGH:
        text = _("a process may have {soft} files open, and from the next login on enough: log in anew")
        yield Finding(
            "file-limits.next-login", text.format(soft=limit.soft), evidence=(*_evidence(limit), then.path)
        )
        return
    text = _("a process may have {soft} files open; the guide recommends {recommended}")
    yield Finding(
        "file-limits.low" if low else "file-limits.below-guide",
        text.format(soft=limit.soft, recommended=RECOMMENDED),
        evidence=_evidence(limit),
        action=Action.CONFIG if low else Action.NONE,
        fix=_by_itself(limit) if _may_raise_itself(limit) else raised(host),
    )


def _may_raise_itself(limit: Limit) -> bool:
    return limit.hard is None or limit.hard >= ENOUGH


def _evidence(limit: Limit) -> tuple[str, ...]:
    hard = "unlimited" if limit.hard is None else str(limit.hard)
    return (f"ulimit -Sn {limit.soft}, ulimit -Hn {hard}",)


def _by_itself(limit: Limit) -> Fix:
    number = RECOMMENDED if limit.hard is None else min(limit.hard, RECOMMENDED)
    steps = (Command(("ulimit", "-Sn", str(number))),)
    title = _("raise the limit in the shell that starts the job")
    return Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=False)
