"""The Pythons of this machine, asked once in a process: each that there is must start."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Callable

TOOL = Path(__file__).parents[2] / "tools/pythons.py"


@functools.cache
def python(which: str) -> str:
    """The path of the `oldest` or `newest`; LookupError where there is none."""
    done = subprocess.run([sys.executable, str(TOOL), which], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(done.stderr.strip())
    return done.stdout.strip()


def with_pip(which: str, lack: Callable[[str], None]) -> str:
    """The oldest or the newest Python, whose pip is mostly new enough for today's wheels."""
    try:
        interpreter = python(which)
    except LookupError as error:
        lack(str(error))
    if subprocess.run([interpreter, "-m", "pip", "-V"], capture_output=True).returncode:
        lack(f"{interpreter} has no pip")
    return interpreter
