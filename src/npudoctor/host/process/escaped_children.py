"""Kills processes of ours that left our process group, known by a variable that only they have."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

# /proc is listed several times: a process that forks while it is killed leaves one that the next round sees.
ROUNDS, ROUND_SECONDS = 20, 0.01
START_MARGIN_SECONDS = 2.0  # the start of a process is in clock ticks, and may be that much too early


def seconds_since_boot() -> float:
    """Seconds since boot, the clock of process start times in /proc/PID/stat."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def kill_marked_processes(mark: str, since: float) -> None:
    """Kill every process with this entry (NAME=value, with a random value) among its first variables.

    `since`: the start of the first of them, as of seconds_since_boot(). Older processes are not read: reading
    environ of one that is stuck in the kernel may hang, as it takes the lock of its memory.
    """
    entry, earliest = mark.encode(), (since - START_MARGIN_SECONDS) * os.sysconf("SC_CLK_TCK")
    for _round in range(ROUNDS):
        pids = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                is_dead_or_stuck = fields[0] in (b"D", b"Z", b"X")  # D: in the kernel
                # Field 22 of proc(5), starttime, counted from after the name in parentheses.
                if int(fields[19]) >= earliest and not is_dead_or_stuck and _has_variable(int(name), entry):
                    pids.append(int(name))
        for pid in pids:
            _kill_if_marked(pid, entry)
        if not pids:
            return
        time.sleep(ROUND_SECONDS)


def _has_variable(pid: int, mark: bytes) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return mark in file.read().split(b"\0")
    return False


def _kill_if_marked(pid: int, mark: bytes) -> None:
    """Kill a process if it still has the mark, through a pidfd where Python and the kernel have them.

    The pidfd is opened before the mark is read again: the pid may be another process's by then.
    """
    with suppress(OSError):
        # Python was built with headers older than Linux 5.3.
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, signal.SIGKILL)
            return
        descriptor = os.pidfd_open(pid)
        try:
            if _has_variable(pid, mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
