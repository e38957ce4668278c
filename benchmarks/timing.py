"""The time of one command, and what a series of such figures says."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from benchmarks.promise import CannotMeasureError, Output

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
DEADLINE = 120.0
"""Seconds after which a command counts as hung."""

PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Spread:
    """A series by its median, quartiles and ends."""

    median: float
    lower: float
    upper: float
    least: float
    most: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """At least two figures are needed."""
        lower, _, upper = statistics.quantiles(figures, n=4, method="inclusive")
        return cls(statistics.median(figures), lower, upper, min(figures), max(figures))


@dataclass(frozen=True)
class Seconds:
    """`cpu`: user and system, with all descendants. `wall`: until it ended and all was read."""

    cpu: float
    wall: float


def adopt_orphans() -> None:
    """Become the parent of what a command leaves behind: work handed to a background process counts."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise CannotMeasureError(f"prctl(PR_SET_CHILD_SUBREAPER): {os.strerror(ctypes.get_errno())}")


def seconds_of(
    argv: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    enter: Callable[[], None] | None = None,
) -> tuple[Seconds, Output]:
    """Run once, read all output through pipes, wait for every descendant. `enter` is called in the child."""
    before, started = _children(), time.monotonic()
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=dict(environment),
        start_new_session=True,
        preexec_fn=enter,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=DEADLINE)
            wall = time.monotonic() - started
            _reap(argv)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise CannotMeasureError(f"{' '.join(argv)} did not end within {DEADLINE:.0f} s") from error
            raise
    return Seconds(_children() - before, wall), Output(process.returncode, stdout, stderr)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _reap(argv: Sequence[str]) -> None:
    """Wait for the orphans of a command that has ended: only a reaped process is in RUSAGE_CHILDREN."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.01)
    raise CannotMeasureError(f"{' '.join(argv)} left a process that did not end within {DEADLINE:.0f} s")
