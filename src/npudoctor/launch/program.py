"""Finds the file that the first word of a command stands for, as a shell does."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # the exit codes of a POSIX shell
PYTHON = pattern(r"python(\d+(\.\d+)*)?\Z")
_SHEBANG = 256  # bytes; the kernel reads no more of a #! line (BINPRM_BUF_SIZE, 128 before Linux 5.1)
_BASH_SAMPLE = 80  # bytes that bash reads to tell a script from a binary (check_binary_file)


class CannotStart(Exception):
    """The command cannot be started. `status`: the exit code that a shell would give."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def find_program(word: str, variables: Mapping[str, str]) -> str:
    """The path of a command: unchanged when it contains a slash, else found in PATH. Raises CannotStart."""
    if "/" in word:
        return word
    if not word:
        raise CannotStart(NOT_FOUND, _("the command is empty"))
    not_executable = None
    for folder in variables.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder or ".", word)
        if _is_file(path):
            if os.access(path, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
                return path
            not_executable = not_executable or path
    if not_executable:
        raise CannotStart(NOT_EXECUTABLE, f"{not_executable}: {strerror(13)}")
    raise CannotStart(NOT_FOUND, _("{command}: no such command in PATH", command=word))


def explain_start_error(path: str, error: int) -> CannotStart:
    """The CannotStart for a failed execve of a path. `error`: the errno."""
    if os.path.isdir(path):
        return CannotStart(NOT_EXECUTABLE, _("{path} is a directory", path=path))
    # ENOENT, ENOTDIR. When the file exists, ENOENT means that its interpreter does not.
    if error in (2, 20) and not os.path.lexists(path):
        return CannotStart(NOT_FOUND, f"{path}: {strerror(error)}")
    words = read_shebang(path)
    if error == 2 and words:
        return CannotStart(
            NOT_EXECUTABLE,
            _("{path}: its interpreter {interpreter} does not exist", path=path, interpreter=words[0]),
        )
    return CannotStart(NOT_EXECUTABLE, f"{path}: {strerror(error)}")


def is_script(path: bytes) -> bool:
    """Whether a file that execve rejects with ENOEXEC is a script: no NUL in its first line, as in bash."""
    with open(path, "rb") as file:
        return b"\0" not in file.read(_BASH_SAMPLE).split(b"\n", 1)[0]


def read_shebang(path: str) -> list[str]:
    """The words of a script's first line without "#!"; [] when the file is no script."""
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
