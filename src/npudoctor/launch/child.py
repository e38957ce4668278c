"""Asks in a forked process: its threads, open files and memory are gone before the job is started."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Callable, Optional

from npudoctor.core import forked
from npudoctor.core.descriptors import open_null
from npudoctor.core.errors import is_out_of_memory
from npudoctor.core.parsing import json_of
from npudoctor.launch.preflight import encode_line

END_SECONDS = 2.0  # how long it may take to end what it started


def run_in_child(
    work: Callable[[], Mapping[str, Any]], seconds: Optional[float] = None
) -> Optional[dict[str, Any]]:
    """What the work answers; None when it ended without an answer, or had none after so many seconds.
    OSError: no process can be made."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how programs end
    until = math.inf if seconds is None else time.monotonic() + seconds
    pid, reading = forked.start(lambda writing: _answer(work, writing))
    try:
        answer = json_of(forked.read_line(reading, until) or b"")
        return answer if isinstance(answer, dict) else None
    except (forked.Late, ValueError):
        return None
    finally:
        os.close(reading)
        _end(pid)


def _answer(work: Callable[[], Mapping[str, Any]], writing: int) -> None:
    os.dup2(open_null(), 0)  # what stands in the caller's input is for the job
    answer: Mapping[str, Any]
    try:
        answer = work()
    except Exception as error:  # a bug of ours: the caller exits with its own status for it
        answer = {"failed": f"{type(error).__name__}: {error}", "memory": is_out_of_memory(error)}
    forked.write(writing, encode_line(answer))


def _end(pid: int) -> None:
    """Let it put in order what it started, then kill it; one that hangs in the kernel is left behind."""
    with suppress(ChildProcessError, ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        if not forked.has_ended(pid, END_SECONDS):
            # One that hangs had no time for those it started, where they are a group of its own.
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
            forked.end(pid)
