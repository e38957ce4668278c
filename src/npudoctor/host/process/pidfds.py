"""Process descriptors (pidfd_open, Linux 5.3): each stays with one process, whoever has its pid later."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Collection
from typing import Callable, Optional

PIDFD_OPEN_NUMBER = 434  # pidfd_open, the same number on all machines


def pidfd_open(pid: int) -> int:
    """A descriptor of a process; OSError as of the kernel.

    By number if Python was built with headers older than Linux 5.3, as conda's is: then os lacks the call.
    """
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.syscall(ctypes.c_long(PIDFD_OPEN_NUMBER), ctypes.c_int(pid), ctypes.c_uint(0))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor


class Pidfds:
    """Opens descriptors of processes, if the kernel has them."""

    def __init__(self, open: Callable[[int], int] = pidfd_open) -> None:
        self._open = open
        self._is_usable: Optional[bool] = None

    @property
    def is_usable(self) -> bool:
        """Whether the kernel and its sandbox (seccomp) allow pidfd_open: tried on ourselves, once."""
        if self._is_usable is None:
            try:
                os.close(self._open(os.getpid()))
                self._is_usable = True
            except OSError:
                self._is_usable = False
        return self._is_usable

    def open(self, pid: int) -> Optional[int]:
        """A descriptor of a process; None if there is no such process."""
        try:
            return self._open(pid)
        except OSError as error:
            # ESRCH: it has ended. EINVAL: the number is that of a thread by now.
            if error.errno in (errno.ESRCH, errno.EINVAL):
                return None
            raise


def wait_for_processes(descriptors: Collection[int], seconds: float) -> set[int]:
    """Wait until all processes have ended, at most `seconds`; the descriptors of those that have.

    A pidfd becomes readable when the last thread of its process has ended.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    ended: set[int] = set()
    until = time.monotonic() + seconds
    while len(ended) < len(descriptors):
        remaining = max(0.0, until - time.monotonic())
        readable = [descriptor for descriptor, _event in poll.poll(remaining * 1000)]
        for descriptor in readable:
            poll.unregister(descriptor)
        ended.update(readable)
        if not readable and remaining <= 0:
            break
    return ended
