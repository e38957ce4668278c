"""The C++ compiler that operators are built with: where it is and its version, by files only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files
from npudoctor.host.process.commands import find_program

_NAMED = pattern(r"g\+\+-(\d+(?:\.\d+)*)\Z")
_NUMBER = pattern(r"\d+(?:\.\d+)*\Z")
# Debian keeps the compiler proper below lib, the Red Hat family and openEuler below libexec.
_LIBS = ("lib/gcc", "lib64/gcc", "libexec/gcc")


@dataclass(frozen=True)
class Compiler:
    """A g++; `version` is None where no file tells it."""

    path: str
    version: Optional[tuple[int, ...]]


def compiler(files: Files, folders: Sequence[str]) -> Optional[Compiler]:
    """The first g++ of these folders; None where none has it."""
    path = find_program(files, folders, "g++")
    return Compiler(path, _version(files, path)) if path else None


def _version(files: Files, path: str) -> Optional[tuple[int, ...]]:
    """The version by the name of the file (g++-12), or by its one folder gcc/<machine>/<version>, where its
    parts lie; None where neither tells.

    That folder may have a second name: 4.8.5 is a link to 4.8.2 on CentOS 7.
    """
    match = _NAMED.search(files.real(path) or "")
    if match:
        return _numbers(match[1])
    prefix = path.rpartition("/")[0].rpartition("/")[0]
    versions = {
        files.real(folder): _numbers(name)
        for lib in _LIBS
        for machine in files.names(f"{prefix}/{lib}")
        for name in sorted(filter(_NUMBER.match, files.names(f"{prefix}/{lib}/{machine}")), key=_numbers)
        for folder in (f"{prefix}/{lib}/{machine}/{name}",)
        # cc1plus is the C++ compiler proper; a folder without it belongs to the C compiler alone.
        if files.stat(f"{folder}/cc1plus") is not None
    }
    # Several compilers: the name g++ does not say which one it starts.
    return versions.popitem()[1] if len(versions) == 1 else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
