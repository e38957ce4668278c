"""Starts parts of the trial for real, under limits and in namespaces."""

from __future__ import annotations

import resource
import shlex
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.trial.trials import Trial, Trials

# What a part is told that is started without Trials.
ALONE = {"seconds": 20, "limits": [], "prefix": ""}


@dataclass(frozen=True)
class Ended:
    """How the child of a part ended."""

    ended: str
    status: Optional[int]
    stdout: str
    stderr: str


def tried(
    part: str,
    limits: Optional[Mapping[int, int]] = None,
    before: Sequence[str] = (),
    python: str = "",
    **questions: object,
) -> Trial:
    """A part in a child with these limits, started by `before`, as `unshare --net`."""
    # Another user may not be able to reach the Python that runs the tests.
    python = python or ("/usr/bin/python3" if "setpriv" in before else sys.executable)

    def limited() -> None:
        for kind, value in (limits or {}).items():
            resource.setrlimit(kind, (value, value))

    def start(argv: Sequence[str], seconds: float) -> Ended:
        try:
            done = subprocess.run(
                [*before, *argv],
                capture_output=True,
                text=True,
                timeout=seconds,
                preexec_fn=limited,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return Ended("timeout", None, (error.stdout or b"").decode(), "")
        return Ended("exited", done.returncode, done.stdout, done.stderr)

    trials = Trials(start, lambda: None, list, lambda: python, time.monotonic() + 60)
    return trials.try_part(part, **questions)


def refusals(trial: Trial) -> dict[str, int]:
    """What was refused, and by which errno."""
    return {attempt.what: attempt.number for attempt in trial.refused()}


def default_acl(path: str, owner: int) -> str:
    """A line of shell that gives a folder a default ACL, with these rights for the owner of what is made."""
    entries = b"".join(
        struct.pack("<HHI", tag, rights, 2**32 - 1) for tag, rights in ((1, owner), (4, 4), (32, 4))
    )
    value = struct.pack("<I", 2) + entries
    code = f"import os; os.setxattr({path!r}, 'system.posix_acl_default', {value!r})"
    return f"/usr/bin/python3 -I -c {shlex.quote(code)}"
