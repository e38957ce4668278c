"""The Pythons of this machine, asked once in a process: each that there is must start."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools/pythons.py"


@functools.cache
def python(which: str) -> str:
    """The path of the `oldest` or `newest`; LookupError where there is none."""
    done = subprocess.run([sys.executable, str(TOOL), which], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(done.stderr.strip())
    return done.stdout.strip()
