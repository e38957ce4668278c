"""Reads for which machine and Python an extension module was built, from its ELF header and its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.elf import machine_number

# e_machine of the ELF header, as uname calls the machine.
MACHINES = {3: "i686", 21: "ppc64le", 22: "s390x", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
HEADER = 20

_TAG = pattern(r"cpython-(\d)(\d+)")


@dataclass(frozen=True)
class Extension:
    """An extension module. `python`: the only version that loads it, such as 3.11; None if any does.

    `c_library`: "gnu" or "musl", for whose interpreters it is; None if the name does not tell.
    """

    path: str
    python: Optional[str]
    c_library: Optional[str] = None


def elf_machine(header: bytes) -> Optional[str]:
    """The machine in the first bytes of an ELF file; None if it is not one, or for an unknown machine."""
    number = machine_number(header)
    return None if number is None else MACHINES.get(number)


def machine_of(files: Files, path: str) -> Optional[str]:
    """The machine of an ELF file; None if it is missing or not one."""
    entry = files.stat(path)
    return elf_machine(files.read(path, HEADER) or b"") if entry is not None and entry.is_file else None


def find_extensions(files: Files, folder: str, module: str) -> list[Extension]:
    """The files in a folder that could be this extension module, for any Python and machine."""
    modules = []
    for name in files.names(folder):
        if name.startswith(f"{module}.") and name.endswith(".so"):
            tag = name[len(module) + 1 : -len("so")]
            match = _TAG.match(tag)
            if match or tag in ("", "abi3."):
                python = f"{match[1]}.{match[2]}" if match else None
                modules.append(Extension(f"{folder}/{name}", python, _c_library_in_tag(tag)))
    return modules


def c_library_of_interpreter(files: Files, search_path: Sequence[str]) -> Optional[str]:
    """The C library of an interpreter, by the names of its own extension modules in lib-dynload; None if
    they do not tell."""
    for folder in search_path:
        if folder.endswith("/lib-dynload"):
            tags = (
                _c_library_in_tag(name[: -len("so")]) for name in files.names(folder) if name.endswith(".so")
            )
            return next(filter(None, tags), None)
    return None


def tag_of_interpreter(files: Files, search_path: Sequence[str]) -> Optional[str]:
    """The tag of the extension modules that an interpreter loads, cpython-311-x86_64-linux-gnu, by its
    own ones; None if they do not tell."""
    for folder in search_path:
        if folder.endswith("/lib-dynload"):
            tags = {
                name[:-3].partition(".")[2]
                for name in files.names(folder)
                if name.endswith(".so") and ".cpython-" in name
            }
            return tags.pop() if len(tags) == 1 else None
    return None


def _c_library_in_tag(tag: str) -> Optional[str]:
    """The last part of cpython-311-x86_64-linux-gnu; None for ABIs of other machines, such as gnueabihf."""
    last = tag.rstrip(".").rpartition("-")[2]
    return last if last in ("gnu", "musl") else None
