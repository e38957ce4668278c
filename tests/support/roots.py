"""A Python of root's with its own standard library, in which a test may give parts to another user."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Optional

from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.process.commands import Commands
from npudoctor.host.python.interpreter import Interpreter, Layout
from npudoctor.host.variables import Variables

SOMEBODY = 12345
VERSION = sysconfig.get_python_version()
# Each test copies some hundred files: no test of such a Python imports one of these.
UNNEEDED = (
    "site-packages", "dist-packages", "test", "idlelib", "ensurepip", "__pycache__", "config-*",
    "lib2to3", "distutils", "tkinter", "turtledemo", "pydoc_data", "unittest", "msilib", "xmlrpc", "wsgiref",
    "curses", "dbm", "sqlite3", "_test*.so", "_codecs_*.so", "xx*.so", "cp[0-9]*.py", "mac_*.py", "iso*.py",
)  # fmt: skip
# Loaded by every start, and in no release a frozen copy: what is put behind it runs.
LOADED = "encodings/aliases.py"
# Code for such a place: a line with the pid at the end of a file.
NOTE = """
import posix
_file = posix.open({path!r}, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o644)
posix.write(_file, b"%d\\n" % posix.getpid())
"""


def python_in(folder: Path) -> Path:
    """Copy the Python that runs us there, without packages; its program."""
    library = folder / f"lib/python{VERSION}"
    (folder / "bin").mkdir(parents=True)
    shutil.copytree(
        sysconfig.get_path("stdlib"), library, symlinks=True, ignore=shutil.ignore_patterns(*UNNEEDED)
    )
    (library / "site-packages").mkdir()
    (library / "lib-dynload").mkdir(exist_ok=True)
    program = folder / f"bin/python{VERSION}"
    shutil.copy2(os.path.realpath(os.path.join(sysconfig.get_path("scripts"), "python3")), program)
    (folder / "bin/python3").symlink_to(program.name)
    return program


def leaving(mark: Path) -> str:
    """Code that leaves a mark, wherever it is run."""
    return f"\nimport posix; posix.mkdir({str(mark)!r}, 0o777)\n"


def python_that(folder: Path, code: str) -> Path:
    """A Python that root may run and that does this while it starts, with built-in modules alone."""
    program = python_in(folder)
    path = folder / f"lib/python{VERSION}" / LOADED
    path.write_text(f"{path.read_text()}\n{code}\n")
    return program


def library(base: Path) -> Path:
    return base / f"lib/python{VERSION}"


def site(base: Path) -> Path:
    return library(base) / "site-packages"


def theirs(path: Path, text: Optional[str] = None) -> None:
    """Give it to another user, with this text."""
    if text is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)


def interpreter(path: Path, **variables: str) -> Interpreter:
    """It as root examines it."""
    files = Files(LocalDisk())
    told = {"PATH": "/usr/bin:/bin", **variables}
    commands = Commands(files, as_root=True, variables=told)
    return Interpreter(
        str(path), "option", files=files, commands=commands, variables=Variables(told), as_root=True
    )


def looked(path: Path, **variables: str) -> Layout:
    return interpreter(path, **variables).layout()


def shim(path: Path, first: str, text: str) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(f"{first}\n{text}\n")
    path.chmod(0o755)
    return path


def commands(**variables: str) -> Commands:
    return Commands(Files(LocalDisk()), as_root=True, variables=variables)
