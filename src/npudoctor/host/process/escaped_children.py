"""Ends processes that we started and that left our group: a variable that only they have tells them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

ROUNDS, REST = 20, 0.01  # one that is being forked is seen the next time
MARGIN = 2.0  # seconds by which the start of a process may be told too early


def now() -> float:
    """Seconds since the boot, by which the start of a process is told."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def kill_marked(mark: str, since: float) -> None:
    """Kill every process with this entry (NAME=value, with a random value) among its first variables.

    `since`: when the first of them was started, as now(). Of older ones nothing is read: the variables of a
    process that is stuck in the kernel may keep whoever asks for them.
    """
    entry, earliest = mark.encode(), (since - MARGIN) * os.sysconf("SC_CLK_TCK")
    for _round in range(ROUNDS):
        pids = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                is_dead_or_stuck = fields[0] in (b"D", b"Z", b"X")  # D: in the kernel
                if int(fields[19]) >= earliest and not is_dead_or_stuck and _has(int(name), entry):
                    pids.append(int(name))
        for pid in pids:
            _kill(pid, entry)
        if not pids:
            return
        time.sleep(REST)


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
