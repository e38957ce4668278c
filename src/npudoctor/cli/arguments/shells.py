"""Chooses the syntax in which `env` prints: by its options, or by the calling shell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Optional

from npudoctor.cli.config import UsageError, not_one_of
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.render.environment import FORMATS, SHELLS

# By program name, the syntax that the shell understands.
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
# Names of builds in distributions (bash-static, zsh5, bsd-csh), and of a program replaced while it runs.
VARIANT = pattern(r"(?:bsd-)?([a-z]+)[-.0-9a-z]*(?: \(deleted\))?\Z")
MOST = 64  # ancestors that are examined


def choose_form(shell: Optional[str], format: Optional[str], variables: Mapping[str, str]) -> str:
    """The value of --shell or --format; else the nearest shell above this process, else $SHELL, else bash."""
    if shell is not None and format is not None:
        raise UsageError(_("{one} and {other} cannot be used together", one="--shell", other="--format"))
    if format is not None:
        return _require_choice("--format", format, FORMATS)
    if shell is not None:
        return _require_choice("--shell", shell, SHELLS)
    return (
        _find_shell_above(os.getppid()) or NAMES.get(os.path.basename(variables.get("SHELL", ""))) or "bash"
    )


def _require_choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UsageError(f"{option}: {not_one_of(value, choices)}")
    return value


def _find_shell_above(pid: int) -> Optional[str]:
    """The syntax of the nearest ancestor that is a shell: `$(...)` is a fork of the shell that evaluates
    it."""
    for _step in range(MOST):
        shell = next((NAMES[name] for name in _program_names(pid) if name in NAMES), None)
        if shell is not None:
            return shell
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The parent is the second field behind the name (proc(5)), which may itself contain ")" and
                # blanks.
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
    return None


def _program_names(pid: int) -> Iterator[str]:
    """Yield the names of a process: of its program first, as its comm is the script's name while it runs
    one."""
    # /proc/PID/exe of another user's process cannot be read; its name below can.
    with contextlib.suppress(OSError):
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        yield program
        variant = VARIANT.match(program)
        if variant is not None:
            yield variant[1]
    # The process may have ended meanwhile.
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        yield file.read().rstrip(b"\n").decode("utf-8", "replace")
