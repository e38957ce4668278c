"""What a program must not have of root's, who starts it for somebody else: limits, keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Optional

Limits = Mapping[str, tuple[Optional[int], Optional[int]]]
# By the kernel's names, as /proc/PID/limits has them.
NAMES = {
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
JOIN_SESSION_KEYRING = 1
KEYCTL = {"x86_64": 250, "aarch64": 219}


def numbered(limits: Limits) -> list[tuple[int, int, int]]:
    """Limits as setrlimit(2) takes them: kind, soft, hard."""
    import resource

    found = []
    for name, pair in limits.items():
        kind = getattr(resource, f"RLIMIT_{NAMES.get(name, '')}", None)
        if kind is not None:
            soft, hard = (resource.RLIM_INFINITY if value is None else value for value in pair)
            found.append((kind, soft, hard))
    return found


def limit_process(pid: int, limits: Limits) -> None:
    """Give a process these limits, where this user may; None is no limit. For what only root may raise: as it
    has just been started, it takes them itself too, lest it be quicker."""
    import resource

    for kind, soft, hard in numbered(limits):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, kind, (soft, hard))


def leave_session_keyring() -> None:
    """Take a new and empty one, in this thread and for what it starts: root's holds its keys
    (session-keyring(7))."""
    number = KEYCTL.get(os.uname().machine)
    if number is None:
        return
    with suppress(ImportError, OSError):
        import ctypes

        ctypes.CDLL(None).syscall(number, JOIN_SESSION_KEYRING, None)
