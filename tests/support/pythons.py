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


@functools.cache
def pip_of(which: str) -> str:
    """The folder that is `-m pip` of the oldest or newest Python; LookupError where that has none.

    Another Python that runs it, as that of an environment, installs for itself: so does `pip --python`, which
    loads all of pip twice.
    """
    interpreter = python(which)
    ask = "import os, pip, pip._internal; print(os.path.dirname(pip.__file__))"
    done = subprocess.run([interpreter, "-c", ask], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(f"{interpreter} has no pip")
    return done.stdout.strip()


def with_pip(which: str, lack: Callable[[str], None]) -> tuple[str, str]:
    """The oldest or the newest Python and its pip, which is mostly new enough for today's wheels."""
    try:
        return python(which), pip_of(which)
    except LookupError as error:
        lack(str(error))
        raise
