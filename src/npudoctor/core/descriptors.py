"""File descriptors, robust against callers that hand on thousands of them, and against a missing /proc or
/dev/null."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import Optional

MOST = 1 << 16  # numbers that are tried one by one where /proc does not list the open ones


def wait_until_ready(descriptor: int, seconds: Optional[float] = None, *, to_write: bool = False) -> bool:
    """Whether it can be read, or written, or is at its end, within so many seconds (None: however long).

    Not with select(), which refuses descriptors from 1024 on; a process that inherits many files gets those.
    """
    look = select.poll()
    look.register(descriptor, select.POLLOUT if to_write else select.POLLIN)
    return bool(look.poll(None if seconds is None else max(0.0, seconds) * 1000))


def open_null() -> int:
    """A new descriptor from which nothing is read, and which takes whatever is written.

    A container may lack /dev/null; the number is then that of an empty file in memory.
    """
    try:
        return os.open(os.devnull, os.O_RDWR)
    except OSError:
        if hasattr(os, "memfd_create"):  # not with the old headers of conda
            return os.memfd_create("nowhere")
        return os.open("/", os.O_RDONLY)


def inherited_descriptors() -> Iterator[int]:
    """The open descriptors from 3 on; those that may be open where /proc is not mounted."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        limit = os.sysconf("SC_OPEN_MAX")
        yield from range(3, min(limit, MOST) if limit > 0 else MOST)
        return
    yield from (int(name) for name in names if int(name) > 2)
