"""Takes from a program what it would inherit from root, who starts it for another user: limits and keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Optional

Limits = Mapping[str, tuple[Optional[int], Optional[int]]]
# From the kernel's names in /proc/PID/limits to those of the constants RLIMIT_* of Python.
RLIMIT_NAMES = {
    "Max address space": "AS",
    "Max core file size": "CORE",
    "Max cpu time": "CPU",
    "Max data size": "DATA",
    "Max file size": "FSIZE",
    "Max locked memory": "MEMLOCK",
    "Max msgqueue size": "MSGQUEUE",
    "Max nice priority": "NICE",
    "Max open files": "NOFILE",
    "Max pending signals": "SIGPENDING",
    "Max processes": "NPROC",
    "Max realtime priority": "RTPRIO",
    "Max realtime timeout": "RTTIME",
    "Max resident set": "RSS",
    "Max stack size": "STACK",
}
JOIN_SESSION_KEYRING = 1  # KEYCTL_JOIN_SESSION_KEYRING of linux/keyctl.h
# The number of keyctl(2), for which neither Python nor glibc has a function.
KEYCTL_NUMBERS = {"x86_64": 250, "aarch64": 219}


def rlimit_rows(limits: Limits) -> list[tuple[int, int, int]]:
    """Limits as setrlimit(2) takes them: (resource, soft, hard); those that Python has no name for are left
    out."""
    import resource

    rows = []
    for name, pair in limits.items():
        kind = getattr(resource, f"RLIMIT_{RLIMIT_NAMES.get(name, '')}", None)
        if kind is not None:
            soft, hard = (resource.RLIM_INFINITY if value is None else value for value in pair)
            rows.append((kind, soft, hard))
    return rows


def limit_process(pid: int, limits: Limits) -> None:
    """Give a process these limits, as far as this user may; None is unlimited.

    Root does this for limits that the job's user may not raise himself. The child has just been started and
    also sets its limits itself, as it may be faster.
    """
    import resource

    for kind, soft, hard in rlimit_rows(limits):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, kind, (soft, hard))


def leave_session_keyring() -> None:
    """Join a new, empty session keyring, for this thread and what it starts: root's holds root's keys
    (session-keyring(7))."""
    number = KEYCTL_NUMBERS.get(os.uname().machine)
    if number is None:
        return
    with suppress(ImportError, OSError):
        import ctypes

        ctypes.CDLL(None).syscall(number, JOIN_SESSION_KEYRING, None)
