"""Collects the output of one running program, and ends the program.

This is for programs of the machine, started by `subprocess` with two streams and a process group. Our own
code runs in children of `core.forked`.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import Optional

_PEEK_FLAGS = os.WEXITED | os.WNOHANG | os.WNOWAIT
CLOSED_PIPES_SLEEP_SECONDS = 0.01  # the same once it has closed its pipes, on which select() would wait
# For what is still in the pipes when the program ends. A child of it that left its group may hold them open
# and print for ever.
DRAIN_SECONDS = 1.0
POLL_SECONDS = 0.1  # between two looks at a program that prints nothing
FAREWELL_SECONDS = 0.5  # for a program to print its stack, before it is killed
REAP_SECONDS = 1.0  # for a killed program to end, before it is left behind


def collect_output(
    child: subprocess.Popen[bytes],
    until: float,
    limit: int,
    *,
    group: bool = False,
    farewell: Optional[int] = None,
) -> tuple[str, list[bytes]]:
    """Read both pipes until the program ends; its ending, and the bytes of stdout and stderr.

    The ending is "exited", "timeout" (`until` passed, on the monotonic clock) or "flooded" (more than `limit`
    bytes on one pipe). `group`: kill what is left of the process group when the program ends, and drop the
    middle of too much output instead of stopping. `farewell`: a signal at which the program prints its
    stack; sent at the deadline.
    """
    parts: list[bytearray] = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as selector:
        for index, pipe in enumerate((child.stdout, child.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, index)
        ending, is_draining = None, False
        while ending is None:
            ending = _read_pipes(selector, child, parts, until, limit, group)
            if group and child.returncode is not None and not is_draining:
                is_draining, until = True, min(until, time.monotonic() + DRAIN_SECONDS)
        if ending == "timeout" and farewell is not None:
            _collect_farewell(selector, child, parts, limit, farewell)
    return ending, [bytes(part[:limit]) for part in parts]


def _read_pipes(
    selector: selectors.BaseSelector,
    child: subprocess.Popen[bytes],
    parts: list[bytearray],
    until: float,
    limit: int,
    group: bool,
) -> Optional[str]:
    """Read what the pipes hold now, or wait a moment for it; the ending, None while the program runs."""
    remaining = until - time.monotonic()
    open_pipes = bool(selector.get_map())
    ready = selector.select(max(0.0, min(remaining, POLL_SECONDS))) if open_pipes else []
    for key, _events in ready:
        part = os.read(key.fd, 1 << 16)
        if not part:
            selector.unregister(key.fileobj)
        parts[key.data] += part
        if len(parts[key.data]) > limit:
            if not group:
                return "flooded"
            del parts[key.data][limit // 2 : -limit // 2]
    # WNOWAIT leaves a zombie: until it is reaped its pid, which names the group, cannot be given away.
    if group and child.returncode is None and os.waitid(os.P_PID, child.pid, _PEEK_FLAGS) is not None:
        kill_group(child.pid)
    has_ended = child.poll() is not None
    if remaining <= 0:
        return "exited" if has_ended else "timeout"
    if not open_pipes:  # a daemon closes them long before its end
        if not has_ended:
            time.sleep(min(remaining, CLOSED_PIPES_SLEEP_SECONDS))
        return "exited" if has_ended else None
    # A child of the program may hold the pipes open after its end: not being closed says nothing. And the
    # program may have written its last line after select() and before poll(): look once more.
    return "exited" if not ready and has_ended and not selector.select(0) else None


def _collect_farewell(
    selector: selectors.BaseSelector,
    child: subprocess.Popen[bytes],
    parts: list[bytearray],
    limit: int,
    farewell: int,
) -> None:
    """Read what the program prints at the farewell signal; SIGCONT wakes it if it was stopped."""
    with suppress(OSError):
        os.kill(child.pid, farewell)
        os.kill(child.pid, signal.SIGCONT)
    until = time.monotonic() + FAREWELL_SECONDS
    while selector.get_map() and time.monotonic() < until and child.returncode is None:
        lengths = [len(part) for part in parts]
        _read_pipes(selector, child, parts, until, limit, True)
        # faulthandler ends a stack with this line. A program that prints all the time runs into `until`.
        if lengths == [len(part) for part in parts] and any(
            b"most recent call first" in part for part in parts
        ):
            return


def end_child(child: subprocess.Popen[bytes], ending: str) -> Optional[int]:
    """Close the pipes and kill what is left of the group; the pid if the program does not die, else None."""
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    # After poll() has reaped the child its pid may belong to another process group.
    if ending == "exited" or child.returncode is not None:
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
