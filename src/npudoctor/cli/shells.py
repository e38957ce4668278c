"""In which form `env` answers: as told, or in the syntax of the shell that calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from npudoctor.config import Refused
from npudoctor.messages import _
from npudoctor.render.environment import FORMATS, SHELLS

# By the name of the program: what understands which syntax.
NAMES = {
    "bash": "bash",
    "sh": "bash",
    "dash": "bash",
    "ksh": "bash",
    "ksh93": "bash",
    "mksh": "bash",
    "busybox": "bash",
    "ash": "bash",
    "zsh": "zsh",
    "fish": "fish",
    "csh": "csh",
    "tcsh": "csh",
}
MOST = 64  # ancestors


def form_of(shell: Optional[str], format: Optional[str], variables: Mapping[str, str]) -> str:
    """What --shell or --format say; else the nearest shell above this process, else $SHELL, else bash."""
    if shell is not None and format is not None:
        raise Refused(_("{one} and {other} exclude each other").format(one="--shell", other="--format"))
    if format is not None:
        return _one_of("--format", format, FORMATS)
    if shell is not None:
        return _one_of("--shell", shell, SHELLS)
    return _above(os.getppid()) or NAMES.get(os.path.basename(variables.get("SHELL", ""))) or "bash"


def _one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        text = _("{value!r} is none of {choices}")
        raise Refused(f"{option}: {text.format(value=value, choices=', '.join(choices))}")
    return value


def _above(pid: int) -> Optional[str]:
    """The nearest process above that is a shell: `$(...)` is a fork of the one that evaluates."""
    for _step in range(MOST):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                head, _bracket, tail = file.read().rpartition(b")")
            name = head.partition(b"(")[2].decode("utf-8", "replace")
            pid = int(tail.split()[1])
        except (OSError, ValueError, IndexError):
            return None
        if name in NAMES:
            return NAMES[name]
    return None
