"""Renders changes to variables as lines for a shell, for Slurm's TaskProlog, or for docker's --env-file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, Optional

from npudoctor.core.messages import _

SHELLS = ("bash", "zsh", "fish", "csh")
FORMATS = ("slurm", "docker")
# A line that makes `eval` fail in every shell.
FALSE = "false\n"
# Variables that are lists in fish, of which only later versions split a string at colons.
FISH_LISTS = ("PATH", "MANPATH", "CDPATH")
# Slurm rejects longer variables; before 22.05 it truncated lines at 4 KB silently.
SLURM_VALUE, OLD_SLURM_LINE = 32 * 4096, 4093  # bytes
DOCKER_LINE = 64 << 10  # bytes; docker rejects longer lines

Changes = Mapping[str, Optional[str]]


class InexpressibleValue(Exception):
    """A value that the format cannot express; str() names the variable and the reason."""


def render_changes(changes: Changes, form: str) -> str:
    """The lines for a shell or a format; "" when nothing changes.

    Each line for a shell ends with a semicolon, as an unquoted `eval $(...)` joins the lines.
    """
    write = _WRITERS[form]
    return "".join(f"{write(name, value)}\n" for name, value in changes.items() if _can_write(form, value))


def find_not_unsettable(changes: Changes, form: str) -> list[str]:
    """The variables that should be unset in a format that cannot express it (docker)."""
    return [name for name, value in changes.items() if not _can_write(form, value)]


def find_cut_by_old_slurm(changes: Changes, form: str) -> list[str]:
    """The variables whose lines Slurm before 22.05 would truncate."""
    return [
        name
        for name, value in changes.items()
        if form == "slurm" and value is not None and len(_encode(_write_slurm(name, value))) > OLD_SLURM_LINE
    ]


def eval_line(shell: str) -> str:
    """The command that a person types to set the variables."""
    return {"fish": "npudoctor env | source", "csh": 'eval "`npudoctor env`"'}.get(
        shell, 'eval "$(npudoctor env)"'
    )


def _can_write(form: str, value: Optional[str]) -> bool:
    return form != "docker" or value is not None


def _write_posix(name: str, value: Optional[str]) -> str:
    if value is None:
        # -v: without it, bash removes a function of that name when there is no such variable.
        return f"unset -v {name};"
    quoted = value.replace("'", "'\\''")
    return f"export {name}='{quoted}';"


def _write_fish(name: str, value: Optional[str]) -> str:
    """Control characters are escaped outside of the quotes: fish's `eval (...)` splits its input at line
    feeds."""
    if value is None:
        # fish's `set -e` fails for a variable that is not set.
        return f"set -e {name}; or true;"
    entries = value.split(":") if name in FISH_LISTS else [value]
    words = ("'" + "".join(map(_escape_fish_char, entry)) + "'" for entry in entries)
    return f"set -gx {name} {' '.join(words)};"


def _escape_fish_char(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    number = ord(char)
    if number < 0x20 or number == 0x7F:
        return f"'\\x{number:02x}'"
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8 (PEP 383)
        return f"'\\X{number - 0xDC00:02x}'"
    return char


def _write_csh(name: str, value: Optional[str]) -> str:
    """Every special character gets a backslash: csh expands `!` even within single quotes."""
    if value is None:
        return f"unsetenv {name};"
    if "\n" in value:
        raise InexpressibleValue(_("{name} contains a line break, which csh does not support", name=name))
    if not value:
        return f"setenv {name} '';"
    chars = (
        char if char.isalnum() or char in "/:._-+,@%" or ord(char) > 0x7F else f"\\{char}" for char in value
    )
    return f"setenv {name} {''.join(chars)};"


def _write_slurm(name: str, value: Optional[str]) -> str:
    """Slurm uses the rest of the line unchanged, so that nothing is quoted."""
    if value is None:
        return f"unset {name}"
    if "\n" in value:
        raise InexpressibleValue(_("{name} contains a line break, which Slurm does not support", name=name))
    # The equals sign and the NUL byte count, too.
    if len(_encode(name + value)) + 2 >= SLURM_VALUE:
        raise InexpressibleValue(_("{name} is longer than Slurm allows", name=name))
    return f"export {name}={value}"


def _write_docker(name: str, value: Optional[str]) -> str:
    """Docker uses the rest of the line unchanged, strips a carriage return, and rejects what is not UTF-8."""
    line = f"{name}={value}"
    if "\n" in line or line.endswith("\r"):
        raise InexpressibleValue(
            _("{name} contains a line break, which docker's --env-file does not support", name=name)
        )
    if any("\udc80" <= char <= "\udcff" for char in line):
        raise InexpressibleValue(_("{name} is not UTF-8; docker rejects it", name=name))
    if len(_encode(line)) >= DOCKER_LINE:
        raise InexpressibleValue(_("{name} is longer than docker allows", name=name))
    return line


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_WRITERS: dict[str, Callable[[str, Optional[str]], str]] = {
    "bash": _write_posix,
    "zsh": _write_posix,
    "fish": _write_fish,
    "csh": _write_csh,
    "slurm": _write_slurm,
    "docker": _write_docker,
}
