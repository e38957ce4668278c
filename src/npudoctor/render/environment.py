"""Changes to variables as lines that a shell evaluates, Slurm's TaskProlog prints, or docker reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, Optional

from npudoctor.core.messages import _

SHELLS = ("bash", "zsh", "fish", "csh")
FORMATS = ("slurm", "docker")
# What makes `eval` fail, in every shell.
FALSE = "false\n"
# Of these fish has lists, and splits what it is given at colons only in later versions.
FISH_LISTS = ("PATH", "MANPATH", "CDPATH")
# Slurm takes shorter variables only; before 22.05 it cut lines at 4 KB without a word.
SLURM_VALUE, OLD_SLURM_LINE = 32 * 4096, 4093  # bytes
DOCKER_LINE = 64 << 10  # bytes: docker reads no longer line

Changes = Mapping[str, Optional[str]]


class Inexpressible(Exception):
    """A value that this form cannot carry; the text says which, and why."""


def render_changes(changes: Changes, form: str) -> str:
    """The lines for a shell or a format; empty where nothing changes.

    Each ends with a semicolon where a shell reads it: an `eval` that is not quoted joins the lines.
    """
    write = _WRITERS[form]
    return "".join(f"{write(name, value)}\n" for name, value in changes.items() if _can_write(form, value))


def cannot_unset(changes: Changes, form: str) -> list[str]:
    """The variables that should be unset, where the form knows no way to say so."""
    return [name for name, value in changes.items() if not _can_write(form, value)]


def cut_by_old_slurm(changes: Changes, form: str) -> list[str]:
    """The variables whose lines an old Slurm would cut."""
    return [
        name
        for name, value in changes.items()
        if form == "slurm" and value is not None and len(_bytes(_slurm(name, value))) > OLD_SLURM_LINE
    ]


def eval_line(shell: str) -> str:
    """What a person types to make use of the block."""
    return {"fish": "npudoctor env | source", "csh": 'eval "`npudoctor env`"'}.get(
        shell, 'eval "$(npudoctor env)"'
    )


def _can_write(form: str, value: Optional[str]) -> bool:
    return form != "docker" or value is not None


def _posix(name: str, value: Optional[str]) -> str:
    if value is None:
        return f"unset -v {name};"
    quoted = value.replace("'", "'\\''")
    return f"export {name}='{quoted}';"


def _fish(name: str, value: Optional[str]) -> str:
    """Line breaks and their like are spelled out between quotes: `eval (...)` would split there."""
    if value is None:
        return f"set -e {name}; or true;"
    entries = value.split(":") if name in FISH_LISTS else [value]
    words = ("'" + "".join(map(_fish_char, entry)) + "'" for entry in entries)
    return f"set -gx {name} {' '.join(words)};"


def _fish_char(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    number = ord(char)
    if number < 0x20 or number == 0x7F:
        return f"'\\x{number:02x}'"
    if 0xDC80 <= number <= 0xDCFF:  # how Python keeps a byte that is not UTF-8
        return f"'\\X{number - 0xDC00:02x}'"
    return char


def _csh(name: str, value: Optional[str]) -> str:
    """Every character that means something has a backslash: within quotes csh would still expand a `!`."""
    if value is None:
        return f"unsetenv {name};"
    if "\n" in value:
        raise Inexpressible(_("{name} contains a line break, which csh does not support", name=name))
    if not value:
        return f"setenv {name} '';"
    chars = (
        char if char.isalnum() or char in "/:._-+,@%" or ord(char) > 0x7F else f"\\{char}" for char in value
    )
    return f"setenv {name} {''.join(chars)};"


def _slurm(name: str, value: Optional[str]) -> str:
    """Slurm takes the rest of the line as it is."""
    if value is None:
        return f"unset {name}"
    if "\n" in value:
        raise Inexpressible(_("{name} contains a line break, which Slurm does not support", name=name))
    if len(_bytes(name + value)) + 2 >= SLURM_VALUE:
        raise Inexpressible(_("{name} is longer than Slurm allows", name=name))
    return f"export {name}={value}"


def _docker(name: str, value: Optional[str]) -> str:
    """Docker takes the rest of the line as it is, drops a carriage return, and refuses what is not UTF-8."""
    line = f"{name}={value}"
    if "\n" in line or line.endswith("\r"):
        raise Inexpressible(
            _("{name} contains a line break, which docker's --env-file does not support", name=name)
        )
    if any("\udc80" <= char <= "\udcff" for char in line):
        raise Inexpressible(_("{name} is not UTF-8; docker rejects it", name=name))
    if len(_bytes(line)) >= DOCKER_LINE:
        raise Inexpressible(_("{name} is longer than docker allows", name=name))
    return line


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_WRITERS: dict[str, Callable[[str, Optional[str]], str]] = {
    "bash": _posix,
    "zsh": _posix,
    "fish": _fish,
    "csh": _csh,
    "slurm": _slurm,
    "docker": _docker,
}
