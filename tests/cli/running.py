"""A job to run: a small training that really trains, and what tests ask of it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from .command import Npudoctor

TRAIN = """
import json, os, random, signal, sys, time

told = []
def note(number, frame):
    told.append(signal.Signals(number).name)
    with open("signals.log", "a") as file:
        file.write(signal.Signals(number).name + "\\n")
    if "--checkpoint" in sys.argv and number == signal.SIGTERM:
        json.dump(weights, open("checkpoint.json", "w"))
        sys.exit(0)

if "--note" in sys.argv:
    for name in "INT TERM HUP QUIT USR1 USR2 CONT WINCH ALRM ABRT".split():
        signal.signal(getattr(signal, "SIG" + name), note)

random.seed(1)
data = [(x, 3.0 * x - 1.0 + random.gauss(0, 0.01)) for x in (random.random() for _ in range(64))]
weights = [0.0, 0.0]
steps = int(sys.argv[1])
for step in range(steps):
    for x, y in data:
        error = weights[0] * x + weights[1] - y
        weights[0] -= 0.1 * error * x
        weights[1] -= 0.1 * error
    if step == 5:
        open("started", "w").close()
    if steps > 1000:
        time.sleep(0.005)
loss = sum((weights[0] * x + weights[1] - y) ** 2 for x, y in data) / len(data)
print("loss %.6f" % loss)
sys.exit(0 if loss < 0.001 else 9)
"""


def job(npudoctor: Npudoctor, *arguments: str) -> list[str]:
    """The command line of the training, written where npudoctor is started."""
    path = npudoctor.folder / "train.py"
    path.write_text(TRAIN, encoding="utf-8")
    return [sys.executable, str(path), *arguments]


def wait_for(path: Path, text: str = "") -> str:
    """Wait until a file is there and holds this text."""
    until = time.monotonic() + 20
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < until, f"{path} with {text!r} never came"
        time.sleep(0.01)
    return path.read_text()


def children(pid: int) -> list[int]:
    """The living children of a process."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def job_of(pid: int) -> int:
    """The pid of the job that a `run` started: the child that is another program than npudoctor's."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for child in children(pid):
            arguments = Path(f"/proc/{child}/cmdline").read_bytes()
            words = arguments.split(b"\0")
            ours = b"npudoctor" in words[:3] or words[0] in (b"witness:", b"npudoctor")
            if (
                not ours
                and not any(word.endswith(b"/npudoctor") for word in words)
                and b"train.py" in arguments
            ):
                return child
        time.sleep(0.01)
    raise AssertionError("no job was started")


def quiet_machine(npudoctor: Npudoctor, **more: Any) -> Npudoctor:
    """The command on a machine that is ready: nobody expects an accelerator."""
    npudoctor.variables["NPUDOCTOR_EXPECT"] = "none"
    npudoctor.variables.update(more)
    os.makedirs(npudoctor.folder, exist_ok=True)
    return npudoctor
