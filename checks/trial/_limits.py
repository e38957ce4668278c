"""Limits of a shell, of a control group and of a container: what is left, and who raises them."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Optional

from npudoctor import Command, Fix, Host, Risk, _
from npudoctor.facts.system.limits import memory_group
from npudoctor.trial.trials import Attempt

# Bytes of one unit of ulimit; of the others it counts.
UNITS = dict.fromkeys(("-v", "-d", "-l", "-s", "-f"), 1024)
# What `docker run --ulimit` takes.
OPTIONS = {"-t": "cpu=-1:-1", "-u": "nproc=-1:-1", "-n": "nofile=512000:512000"}
UNLIMITED = -1


def limit_line(flag: str, limits: Sequence[int]) -> str:
    """Both limits as a shell shows them."""
    soft, hard = (_shown(flag, value) for value in limits)
    return f"ulimit -S{flag[1]} {soft}, ulimit -H{flag[1]} {hard}"


def raise_limit(host: Host, flag: str, limits: Sequence[int], least: int) -> Fix:
    """The line for the shell that starts the job, where its hard limit gives at least this much; else whom to
    ask."""
    hard = limits[1]
    if hard == UNLIMITED or hard >= least:
        return Fix(
            _("raise the limit in the shell that starts the job"),
            steps=(Command(("ulimit", f"-S{flag[1]}", _shown(flag, hard))),),
            risk=Risk.MANUAL,
            needs_root=False,
        )
    if host.system.is_container() and flag in OPTIONS:
        return ask_for_option("--ulimit", OPTIONS[flag])
    title = _(
        "ask whoever sets the limits of this session to raise ulimit {flag}: the hard limit is too low",
        flag=flag,
    )
    return Fix(title, risk=Risk.MANUAL, needs_root=False)


def ask_for_option(*words: str) -> Fix:
    """What only whoever starts the container can give."""
    return Fix(
        _("ask whoever starts the container to add {options}", options=" ".join(words)),
        risk=Risk.MANUAL,
        needs_root=False,
        container=words,
    )


def unfiltered(host: Host, attempt: Attempt) -> Optional[Fix]:
    """What lets through a call that a container's profile of system calls refuses."""
    refused = attempt.number in (errno.EPERM, errno.ENOSYS)
    if not refused or not host.system.is_container():
        return None
    return ask_for_option("--security-opt", "seccomp=unconfined")


def memory_left(host: Host) -> int:
    """Bytes that can be taken before somebody is killed for it."""
    group = memory_group(host)
    available = host.resources.memory().available
    return min(available, group.left) if group else available


def lower_stack(limits: Optional[Sequence[int]]) -> Optional[Fix]:
    """Stacks of the usual size, where a shell asks for so large ones that no thread gets one."""
    if limits is None or limits[0] <= 64 << 20:  # without a limit (-1) the C library takes 2 MiB
        return None
    return Fix(
        _("set the usual thread stack size in the shell that starts the job"),
        steps=(Command(("ulimit", "-Ss", "8192")),),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _shown(flag: str, value: int) -> str:
    return "unlimited" if value == UNLIMITED else str(value // UNITS.get(flag, 1))
