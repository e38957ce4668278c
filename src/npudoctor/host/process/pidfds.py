"""Descriptors of processes (pidfd, Linux 5.3): each means its process, and no later one of that pid."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Collection
from typing import Callable, Optional

OPEN = 434  # pidfd_open, the same number on all machines


def pidfd_open(pid: int) -> int:
    """A descriptor of a process; OSError as the kernel gives it.

    By number where Python was built with headers that do not know the call, as those of conda are.
    """
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.syscall(ctypes.c_long(OPEN), ctypes.c_int(pid), ctypes.c_uint(0))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor


class Pidfds:
    """Holds processes by descriptors, where the kernel can."""

    def __init__(self, open: Callable[[int], int] = pidfd_open) -> None:
        self._open = open
        self._usable: Optional[bool] = None

    @property
    def usable(self) -> bool:
        """Whether kernel and sandbox let us hold a process: tried on ourselves."""
        if self._usable is None:
            try:
                os.close(self._open(os.getpid()))
                self._usable = True
            except OSError:
                self._usable = False
        return self._usable

    def open(self, pid: int) -> Optional[int]:
        """A descriptor of a process; None when there is no such process."""
        try:
            return self._open(pid)
        except OSError as error:
            if error.errno in (errno.ESRCH, errno.EINVAL):  # gone; a thread's number by now
                return None
            raise


def wait_for_ends(descriptors: Collection[int], seconds: float) -> set[int]:
    """Those whose process ended, all threads of it; waits until all have, or so long."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    over: set[int] = set()
    until = time.monotonic() + seconds
    while len(over) < len(descriptors):
        left = max(0.0, until - time.monotonic())
        readable = [descriptor for descriptor, _event in poll.poll(left * 1000)]
        for descriptor in readable:
            poll.unregister(descriptor)
        over.update(readable)
        if not readable and left <= 0:
            break
    return over
