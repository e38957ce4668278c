"""Runs the check in a forked process: its threads, open files and memory are gone before the job starts."""

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

END_SECONDS = 2.0  # how long the child may take to end the processes that it started


def run_in_child(
    work: Callable[[], Mapping[str, Any]], seconds: Optional[float] = None
) -> Optional[dict[str, Any]]:
    """Run the work in a child; returns its answer, None when it ended without one or `seconds` passed.

    `seconds` None: no limit. Raises OSError when no process can be started.
    """
    # When the caller ignores SIGCHLD, children vanish without a status that could be waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    until = math.inf if seconds is None else time.monotonic() + seconds
    pid, reading = forked.start(lambda writing: _send_answer(work, writing))
    try:
        answer = json_of(forked.read_line(reading, until) or b"")
        return answer if isinstance(answer, dict) else None
    except (forked.Late, ValueError):
        return None
    finally:
        os.close(reading)
        _end_child(pid)


def _send_answer(work: Callable[[], Mapping[str, Any]], writing: int) -> None:
    os.dup2(open_null(), 0)  # standard input is for the job
    answer: Mapping[str, Any]
    try:
        answer = work()
    except Exception as error:  # a bug of npudoctor: the parent exits with 70 for it
        answer = {"failed": f"{type(error).__name__}: {error}", "memory": is_out_of_memory(error)}
    forked.write(writing, encode_line(answer))


def _end_child(pid: int) -> None:
    """Give the child time to clean up, then kill it; one that hangs in the kernel is abandoned."""
    # It ended by itself, or somebody else reaped it.
    with suppress(ChildProcessError, ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        if not forked.has_ended(pid, END_SECONDS):
            # It had no time to end its own children; when it leads a process group, they are in it.
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
            forked.end(pid)
