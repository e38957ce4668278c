"""The form in which `env` answers: the one asked for, or the syntax of the calling shell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Optional

from npudoctor.cli.config import UsageError, not_one_of
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
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
# How distributions call their builds: bash-static, zsh5, bsd-csh; and what was replaced while it runs.
VARIANT = pattern(r"(?:bsd-)?([a-z]+)[-.0-9a-z]*(?: \(deleted\))?\Z")
MOST = 64  # ancestors


def form_of(shell: Optional[str], format: Optional[str], variables: Mapping[str, str]) -> str:
    """What --shell or --format say; else the nearest shell above this process, else $SHELL, else bash."""
    if shell is not None and format is not None:
        raise UsageError(_("{one} and {other} cannot be used together", one="--shell", other="--format"))
    if format is not None:
        return _one_of("--format", format, FORMATS)
    if shell is not None:
        return _one_of("--shell", shell, SHELLS)
    return _above(os.getppid()) or NAMES.get(os.path.basename(variables.get("SHELL", ""))) or "bash"


def _one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UsageError(f"{option}: {not_one_of(value, choices)}")
    return value


def _above(pid: int) -> Optional[str]:
    """The nearest process above that is a shell: `$(...)` is a fork of the one that evaluates."""
    for _step in range(MOST):
        shell = next((NAMES[name] for name in _names(pid) if name in NAMES), None)
        if shell is not None:
            return shell
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
    return None


def _names(pid: int) -> Iterator[str]:
    """What a process may be called: first its program, since one that runs a script has the script's name."""
    with contextlib.suppress(OSError):
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        yield program
        known = VARIANT.match(program)
        if known is not None:
            yield known[1]
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        yield file.read().rstrip(b"\n").decode("utf-8", "replace")
