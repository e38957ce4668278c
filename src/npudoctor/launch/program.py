"""Which file a command's first word means, as a shell would find it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror

NOT_FOUND, NOT_EXECUTABLE = 127, 126
PYTHON = pattern(r"python(\d+(\.\d+)*)?\Z")
_SHEBANG = 256  # the kernel reads no more of it
_LOOKED_AT = 80  # bash reads no more to tell a script from a binary


class CannotStart(Exception):
    """The command cannot be started: the exit status that a shell would give, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def find_program(word: str, variables: Mapping[str, str]) -> str:
    """The path of a command: as it stands with a slash in it, else from PATH."""
    if "/" in word:
        return word
    if not word:
        raise CannotStart(NOT_FOUND, _("the command is empty"))
    barred = None
    for folder in variables.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder or ".", word)
        if _is_file(path):
            if os.access(path, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
                return path
            barred = barred or path
    if barred:
        raise CannotStart(NOT_EXECUTABLE, f"{barred}: {strerror(13)}")
    raise CannotStart(NOT_FOUND, _("{command}: no such command in PATH", command=word))


def start_error(path: str, error: int) -> CannotStart:
    """What execve's refusal of a path means."""
    if os.path.isdir(path):
        return CannotStart(NOT_EXECUTABLE, _("{path} is a directory", path=path))
    if error in (2, 20) and not os.path.lexists(path):
        return CannotStart(NOT_FOUND, f"{path}: {strerror(error)}")
    words = shebang(path)
    if error == 2 and words:
        return CannotStart(
            NOT_EXECUTABLE,
            _("{path}: its interpreter {interpreter} does not exist", path=path, interpreter=words[0]),
        )
    return CannotStart(NOT_EXECUTABLE, f"{path}: {strerror(error)}")


def is_script(path: bytes) -> bool:
    """Whether a file that the kernel does not know is a script: as bash judges, by its first line."""
    with open(path, "rb") as file:
        return b"\0" not in file.read(_LOOKED_AT).split(b"\n", 1)[0]


def shebang(path: str) -> list[str]:
    """The words of a script's first line, without "#!"; none for all else."""
    if not _is_file(path):
        return []
    try:
        with open(path, "rb") as file:
            head = file.read(_SHEBANG)
    except OSError:
        return []
    line = os.fsdecode(head.split(b"\n", 1)[0])
    return line[2:].split() if line.startswith("#!") else []


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
