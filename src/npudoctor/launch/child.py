"""Asks in a forked process: its threads, open files and memory are gone before the job is started."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Callable, Optional

from npudoctor.core.descriptors import open_null
from npudoctor.core.parsing import json_of
from npudoctor.launch.preflight import encode_line

END_SECONDS = 2.0  # how long it may take to end what it started
REAP_SECONDS = 0.5


def run_in_child(
    work: Callable[[], Mapping[str, Any]], seconds: Optional[float] = None
) -> Optional[dict[str, Any]]:
    """What the work answers; None when it ended without an answer, or had none after so many seconds.
    OSError: no process can be made."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how programs end
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if pid == 0:
        os.close(reading)
        try:
            nothing = open_null()
            os.dup2(nothing, 0)  # what stands in the caller's input is for the job
            line = memoryview(encode_line(_run(work)))
            while line:
                line = line[os.write(writing, line) :]
        finally:
            os._exit(0)
    os.close(writing)
    try:
        try:
            answer = json_of(_line(reading, seconds))
        except ValueError:
            return None
        return answer if isinstance(answer, dict) else None
    finally:
        os.close(reading)
        _end(pid)


def _line(reading: int, seconds: Optional[float]) -> bytes:
    """What comes through a pipe up to the end of a line, or of the time."""
    until, line = None if seconds is None else time.monotonic() + seconds, b""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while not line.endswith(b"\n"):
        left = None if until is None else until - time.monotonic()
        if left is not None and (left <= 0 or not poll.poll(left * 1000)):
            return b""
        part = os.read(reading, 1 << 16)
        if not part:
            break
        line += part
    return line


def _run(work: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        return work()
    except Exception as error:  # a bug of ours: the caller exits with its own status for it
        return {"failed": f"{type(error).__name__}: {error}"}


def _end(pid: int) -> None:
    """Let it put in order what it started, then kill it; one that hangs in the kernel is left behind."""
    with suppress(ChildProcessError, ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        if not _wait_for_end(pid, END_SECONDS):
            # One that hangs had no time for those it started, where they are a group of its own.
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            _wait_for_end(pid, REAP_SECONDS)


def _wait_for_end(pid: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True
