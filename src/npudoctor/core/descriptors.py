"""File descriptors, robust against callers that hand on thousands of them, and against a missing /proc or
/dev/null."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import Optional

MOST = 1 << 16  # numbers that are tried one by one where /proc does not list the open ones


def wait_until_ready(descriptor: int, seconds: Optional[float] = None, *, to_write: bool = False) -> bool:
    """Return whether a descriptor can be read, or written, or is at its end, within this many seconds (None:
    no limit).

    Not with select(), which refuses descriptors from 1024 on; a process that inherits many files gets those.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT if to_write else select.POLLIN)
    # poll() takes milliseconds.
    return bool(poller.poll(None if seconds is None else max(0.0, seconds) * 1000))


def open_null() -> int:
    """A new descriptor that reads as empty and takes whatever is written.

    A container may lack /dev/null; the descriptor is then an empty file in memory.
    """
    try:
        return os.open(os.devnull, os.O_RDWR)
    except OSError:
        if hasattr(os, "memfd_create"):  # not with the old headers of conda
            # Files in memory need no file system: they work in a container with a read-only root as well.
            return os.memfd_create("nowhere")
        # Reading from a folder fails with EISDIR, writing with EBADF; but the number is occupied, which is
        # what matters: no file that is opened later becomes stdin or stdout.
        return os.open("/", os.O_RDONLY)


def inherited_descriptors() -> Iterator[int]:
    """The open descriptors from 3 on; without /proc every number that may be open."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        # Containers often set no useful limit (docker: 1073741816), hence MOST.
        limit = os.sysconf("SC_OPEN_MAX")
        yield from range(3, min(limit, MOST) if limit > 0 else MOST)
        return
    # The listing has a descriptor of its own, which is closed by now.
    yield from (int(name) for name in names if int(name) > 2)
