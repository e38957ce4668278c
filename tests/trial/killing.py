"""Kills parts of the trial at random moments, and counts what is left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from npudoctor.trial.trials import read_source

SHM = Path("/dev/shm")


def with_variable(assignment: str) -> list[str]:
    """The processes that have this among their variables."""
    pids = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if assignment.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                pids.append(pid)
        except OSError:
            continue
    return pids


def left_after_kills(
    part: str, folder: Path, *, seconds: float, times: int, before: Sequence[str] = (), group: bool = True
) -> list[str]:
    """Kill a part so often, within so many seconds of its first word; all that has a name of ours, or runs,
    after that. `folder` is its HOME, its TMPDIR and where it is started; `group`: as `run` kills."""
    chance, shm = random.Random(part), set(os.listdir(SHM))  # noqa: S311
    variables = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder), "TRIAL_OF": str(folder)}
    questions = {"folders": [], "existing": [], "names": 2, "needed": []}
    asked = json.dumps({"seconds": 10, **questions, "limits": [], "prefix": ""})
    left: list[str] = []
    for _number in range(times):
        child = subprocess.Popen(
            [*before, sys.executable, "-S", "-c", read_source(part), asked],
            env=variables, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert child.stdout is not None
        assert b'"try"' in child.stdout.readline(), "it never began"
        time.sleep(chance.random() * seconds)
        (os.killpg if group else os.kill)(child.pid, signal.SIGKILL)
        child.communicate()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        shared = [name for name in os.listdir(SHM) if "trial" in name and name not in shm]
        left = [*os.listdir(folder), *with_variable(f"TRIAL_OF={folder}"), *shared]
        if not left:
            break
        time.sleep(0.01)
    return left
