"""Limits of a shell, of a control group and of a container: what is left, and who raises them."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Optional

from npudoctor import Command, Fix, Host, Risk, _
from npudoctor.facts.system.limits import memory_group
from npudoctor.trial.trials import Attempt

# Bytes per unit of bash's ulimit; the other limits are counts or seconds.
UNITS = dict.fromkeys(("-v", "-d", "-l", "-s", "-f"), 1024)
# What `docker run --ulimit` takes.
OPTIONS = {"-t": "cpu=-1:-1", "-u": "nproc=-1:-1", "-n": "nofile=512000:512000"}
# RLIM_INFINITY as Python's resource module reports it.
UNLIMITED = -1


def limit_line(flag: str, limits: Sequence[int]) -> str:
    """Return both limits as a shell shows them. `limits`: soft and hard, -1 for unlimited."""
    soft, hard = (_show_limit(flag, value) for value in limits)
    return f"ulimit -S{flag[1]} {soft}, ulimit -H{flag[1]} {hard}"


def raise_limit(host: Host, flag: str, limits: Sequence[int], least: int) -> Fix:
    """Return the line for the shell that starts the job if its hard limit is at least `least`; else whom to
    ask. `limits`: soft and hard, -1 for unlimited."""
    hard = limits[1]
    if hard == UNLIMITED or hard >= least:
        return Fix(
            _("raise the limit in the shell that starts the job"),
            steps=(Command(("ulimit", f"-S{flag[1]}", _show_limit(flag, hard))),),
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
    """Return the fix that asks whoever starts the container for an option of `docker run`."""
    return Fix(
        _("ask whoever starts the container to add {options}", options=" ".join(words)),
        risk=Risk.MANUAL,
        needs_root=False,
        container=words,
    )


def unfilter_fix(host: Host, attempt: Attempt) -> Optional[Fix]:
    """Return the option that allows a system call which a container's seccomp profile refuses; None if that
    is not the cause. Such a profile answers EPERM or ENOSYS (seccomp(2))."""
    is_filtered = attempt.number in (errno.EPERM, errno.ENOSYS)
    if not is_filtered or not host.system.is_container():
        return None
    return ask_for_option("--security-opt", "seccomp=unconfined")


def free_memory(host: Host) -> int:
    """Return the bytes that can be allocated before the kernel kills a process."""
    group = memory_group(host)
    available = host.resources.memory().available
    return min(available, group.left) if group else available


def lower_stack_fix(limits: Optional[Sequence[int]]) -> Optional[Fix]:
    """Return the line that sets the usual stack size if `ulimit -s` is so large that no thread gets a stack;
    else None. `limits` are in bytes."""
    if limits is None or limits[0] <= 64 << 20:  # without a limit (-1) the C library takes 2 MiB
        return None
    return Fix(
        _("set the usual thread stack size in the shell that starts the job"),
        # 8 MiB is the kernel's default (_STK_LIM); glibc gives each thread a stack of the soft limit
        # (pthread_create(3)).
        steps=(Command(("ulimit", "-Ss", "8192")),),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _show_limit(flag: str, value: int) -> str:
    return "unlimited" if value == UNLIMITED else str(value // UNITS.get(flag, 1))
