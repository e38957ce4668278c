"""Ends processes that we started and that left our group: a variable that only they have tells them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

ROUNDS, REST = 20, 0.01  # one that is being forked is seen the next time
MARGIN = 2.0  # seconds by which the start of a process may be told too early


def now() -> float:
    """Seconds since the boot, by which the start of a process is told."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def end_marked(mark: str, since: float) -> None:
    """Kill every process with this entry (NAME=value, with a random value) among its first variables.

    `since`: when the first of them was started, as now(). Of older ones nothing is read: the variables of a
    process that is stuck in the kernel may keep whoever asks for them.
    """
    for _round in range(ROUNDS):
        pids = list(_marked(mark.encode(), since))
        for pid in pids:
            _kill(pid, mark.encode())
        if not pids:
            return
        time.sleep(REST)


def _marked(mark: bytes, since: float) -> Iterator[int]:
    earliest = (since - MARGIN) * os.sysconf("SC_CLK_TCK")
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _since(name, earliest) and _has(int(name), mark):
            yield int(name)


def _since(name: str, earliest: float) -> bool:
    """Whether it was started since then, and is neither dead nor stuck in the kernel."""
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
        return int(fields[19]) >= earliest and fields[0] not in (b"D", b"Z", b"X")
    return False


def _has(pid: int, mark: bytes) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return mark in file.read().split(b"\0")
    return False


def _kill(pid: int, mark: bytes) -> None:
    """By a descriptor, where the kernel has them: the number may belong to another one a moment later."""
    with suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, signal.SIGKILL)
            return
        descriptor = os.pidfd_open(pid)
        try:
            if _has(pid, mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
