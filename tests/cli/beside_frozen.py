"""Runs a command beside a frozen FUSE, in mounts of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

from .command import Done, Npudoctor


def runner(
    npudoctor: Npudoctor, point: Path, folder: Path, within: float, lack: Callable[[str], None]
) -> Callable[..., Done]:
    """What runs a command in `folder`; FROZEN in arguments and variables stands for the mount point. It must
    be over `within` so many seconds and leave nothing behind."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        lack("no /dev/fuse")
    point.mkdir(parents=True)

    def run(*arguments: str, **variables: str) -> Done:
        named = {name: value.replace("FROZEN", str(point)) for name, value in variables.items()}
        command = npudoctor.argv(*(argument.replace("FROZEN", str(point)) for argument in arguments))
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("frozen.py")), str(point), *command],
            env=npudoctor.environment({"FROZEN": str(point), **named}), cwd=folder, capture_output=True,
            text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        assert told["seconds"] < within and told["left"] == [], told
        return Done(told["status"], told["out"], told["err"])

    return run
