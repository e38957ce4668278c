"""How many files may a process of this shell have open?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, INFO, WARNING, Action, Command, Facts, Finding, Fix, Host, Risk, Scope, _, check
from npudoctor.checks.host._file_limits_fixes import ENOUGH, RECOMMENDED, coming, raised
from npudoctor.facts.system.limits import Limit, limit_of

FEW = 4096
NONE_AT_ALL = 32  # a Python that loads a framework has as many open at once


@check(
    "file-limits",
    scope=Scope.JOB,
    codes={
        "file-limits.unusable": ERROR,
        "file-limits.low": WARNING,
        "file-limits.below-guide": INFO,
        "file-limits.next-login": INFO,
    },
)
def file_limits(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This shell's processes may open enough files.

    ## What it does

    Reads the limit of open files (`ulimit -n`) that a job started from here inherits; with `--env-of PID` the
    one of that process. Ascend's guides recommend 512000; it is quiet from 65536.

    - `file-limits.unusable`: below 32; no framework gets far enough to train.
    - `file-limits.low`: from 32, and below 4096.
    - `file-limits.below-guide`: from 4096, and below 65536.
    - `file-limits.next-login`: too low, but limits.conf or limits.d gives enough to the next login.

    A shell may raise its own soft limit up to the hard limit. Above that only root can, for sessions to come;
    a service gets its limits from its unit, a Slurm job from slurmd or the shell that submitted it, and a
    container when it is made.

    ## Why it matters

    Data loaders, sockets to every rank and mapped files share the limit. Where it is reached, a job of many
    ranks ends with "Too many open files", often long after its start.

    ## Fix safety

    What the shell may do itself, up to its hard limit, is shown only: no child can raise a limit for its
    parent. For logins, /etc/security/limits.d/90-npudoctor.conf is written where pam_limits is in use, with
    CAUTION: a program that closes every possible descriptor starts more slowly. It never asks for more than
    fs.nr_open, as no session could be opened then. `npudoctor undo` takes it back; sessions that are open
    keep what they have.

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
        text = _("a process may have {soft} files open, but enough from the next login: log in again")
        yield Finding(
            "file-limits.next-login", text.format(soft=limit.soft), evidence=(*_evidence(limit), then.path)
        )
        return
    text = _("a process may have {soft} files open; the guide recommends {recommended}")
    yield Finding(
        _code(limit.soft),
        text.format(soft=limit.soft, recommended=RECOMMENDED),
        evidence=_evidence(limit),
        action=Action.CONFIG if low else Action.NONE,
        fix=_by_itself(limit) if _may_raise_itself(limit) else _raised(host, limit),
    )


def _code(soft: int) -> str:
    if soft < NONE_AT_ALL:
        return "file-limits.unusable"
    return "file-limits.low" if soft < FEW else "file-limits.below-guide"


def _may_raise_itself(limit: Limit) -> bool:
    return limit.hard is None or limit.hard >= ENOUGH


def _evidence(limit: Limit) -> tuple[str, ...]:
    hard = "unlimited" if limit.hard is None else str(limit.hard)
    lines = [f"ulimit -Sn {limit.soft}, ulimit -Hn {hard}"]
    if _room(limit) and not _may_raise_itself(limit):
        text = _("this shell may raise it now: {line}")
        lines.append(text.format(line=f"ulimit -Sn {limit.hard}"))
    return tuple(lines)


def _raised(host: Host, limit: Limit) -> Fix:
    """What raises the hard limit, for later; and where that is nobody's line to type here, what this shell
    may do now, if that is of use."""
    later: Fix = raised(host)
    return _by_itself(limit, later) if later.risk is Risk.MANUAL and _room(limit) else later


def _room(limit: Limit) -> bool:
    """Whether the shell may itself raise a limit that is low to one that is not."""
    return limit.soft is not None and limit.hard is not None and limit.soft < FEW < limit.hard


def _by_itself(limit: Limit, later: Optional[Fix] = None) -> Fix:
    number = RECOMMENDED if limit.hard is None else min(limit.hard, RECOMMENDED)
    steps = (Command(("ulimit", "-Sn", str(number))),)
    title = _("raise the limit in the shell that starts the job")
    if later is not None:
        text = _("raise the limit in the shell that starts the job as far as it may; for more: {later}")
        title = text.format(later="; ".join((later.title, *later.commands)))
    return Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=False)
