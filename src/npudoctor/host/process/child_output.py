"""One program that runs: its output taken in, its end waited for or made.

A program has two streams and a group, and is started by `subprocess`. Our own work is done by `core.forked`.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import Optional

_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT
STILL_SECONDS = 0.01  # the same once it has closed its pipes
LAST_SECONDS = 1.0  # for what is in the pipes at its end; who left its group may go on printing
LOOK_SECONDS = 0.1  # how often a program that says nothing is looked at
FAREWELL_SECONDS = 0.5  # for a program to say where it is, before it is killed
REAP_SECONDS = 1.0  # how long a killed program may take to be gone before it is left behind


def collect(
    child: subprocess.Popen[bytes],
    until: float,
    limit: int,
    *,
    group: bool = False,
    farewell: Optional[int] = None,
) -> tuple[str, list[bytes]]:
    """Read both pipes until they close, the deadline passes, or more comes than anybody can use.

    `group`: what the program leaves of its group is killed at its end, and of too much output the middle
    is dropped. `farewell`: the signal at which it says where it is; sent at the deadline.
    """
    parts: list[bytearray] = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as selector:
        for index, pipe in enumerate((child.stdout, child.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, index)
        ended, over = None, False
        while ended is None:
            ended = _read_on(selector, child, parts, until, limit, group)
            if group and child.returncode is not None and not over:
                over, until = True, min(until, time.monotonic() + LAST_SECONDS)
        if ended == "timeout" and farewell is not None:
            _last_words(selector, child, parts, limit, farewell)
    return ended, [bytes(part[:limit]) for part in parts]


def _read_on(
    selector: selectors.BaseSelector,
    child: subprocess.Popen[bytes],
    parts: list[bytearray],
    until: float,
    limit: int,
    group: bool,
) -> Optional[str]:
    """Take what the pipes hold now, or wait a moment for it; how the program ended, once it has."""
    left = until - time.monotonic()
    open_pipes = bool(selector.get_map())
    ready = selector.select(max(0.0, min(left, LOOK_SECONDS))) if open_pipes else []
    for key, _events in ready:
        part = os.read(key.fd, 1 << 16)
        if not part:
            selector.unregister(key.fileobj)
        parts[key.data] += part
        if len(parts[key.data]) > limit:
            if not group:
                return "flooded"
            del parts[key.data][limit // 2 : -limit // 2]
    # As long as nobody has waited for it, its number is still that of its group.
    if group and child.returncode is None and os.waitid(os.P_PID, child.pid, _LOOK) is not None:
        kill_group(child.pid)
    gone = child.poll() is not None
    if left <= 0:
        return "exited" if gone else "timeout"
    if not open_pipes:  # which a program may close long before its end
        if not gone:
            time.sleep(min(left, STILL_SECONDS))
        return "exited" if gone else None
    # A daemon that the program started may hold the pipes open after its end; and between our look at them
    # and its end the program may have written its last.
    return "exited" if not ready and gone and not selector.select(0) else None


def _last_words(
    selector: selectors.BaseSelector,
    child: subprocess.Popen[bytes],
    parts: list[bytearray],
    limit: int,
    farewell: int,
) -> None:
    """What it writes when it is asked where it is; one that was stopped is woken for it."""
    with suppress(OSError):
        os.kill(child.pid, farewell)
        os.kill(child.pid, signal.SIGCONT)
    until = time.monotonic() + FAREWELL_SECONDS
    while selector.get_map() and time.monotonic() < until and child.returncode is None:
        before = [len(part) for part in parts]
        _read_on(selector, child, parts, until, limit, True)
        # One that prints all the time is cut off by the time.
        if before == [len(part) for part in parts] and any(
            b"most recent call first" in part for part in parts
        ):
            return


def end(child: subprocess.Popen[bytes], ended: str) -> Optional[int]:
    """Close the pipes and kill what is left of the group; the pid when it does not die."""
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    if ended == "exited" or child.returncode is not None:  # its number may be another one's by now
        return None
    kill_group(child.pid)
    try:
        child.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        return child.pid
    return None


def kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # gone already, or changed its user
        os.killpg(pid, signal.SIGKILL)
