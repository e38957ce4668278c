"""One program that runs: its output taken in, its end waited for or made."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import Optional

LOOK_SECONDS = 0.1  # how often a program that says nothing is looked at
REAP_SECONDS = 0.5  # how long a killed program may take to be gone before it is left behind


def collected(child: subprocess.Popen[bytes], until: float, limit: int) -> tuple[str, list[bytes]]:
    """Read both pipes until they close, the deadline passes, or more comes than anybody can use."""
    parts: list[bytearray] = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as selector:
        for index, pipe in enumerate((child.stdout, child.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, index)
        ended = None
        while ended is None:
            ended = _read_on(selector, child, parts, until, limit)
    return ended, [bytes(part[:limit]) for part in parts]


def _read_on(
    selector: selectors.BaseSelector,
    child: subprocess.Popen[bytes],
    parts: list[bytearray],
    until: float,
    limit: int,
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
            return "flooded"
    if left <= 0 and child.poll() is None:
        return "timeout"
    if not open_pipes:
        return _exited(child, left)
    # A daemon that the program started may hold the pipes open after its end; and between our look at them
    # and its end the program may have written its last.
    over = not ready and child.poll() is not None and not selector.select(0)
    return "exited" if over else None


def _exited(child: subprocess.Popen[bytes], left: float) -> str:
    """Both pipes are closed, which a program may do long before its end."""
    try:
        child.wait(left)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "exited"


def end(child: subprocess.Popen[bytes], ended: str) -> Optional[int]:
    """Close the pipes and kill what is left of the group; the pid when it does not die."""
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    if ended == "exited":
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
