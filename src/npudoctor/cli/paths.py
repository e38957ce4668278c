"""Judges the paths that options name, before anything is asked; what does not exist is refused."""

from __future__ import annotations

import os
from typing import Callable, Optional, TypeVar

from npudoctor.config import Config, Refused, absolute
from npudoctor.host import CannotTell
from npudoctor.host.files import Files
from npudoctor.messages import _, strerror

T = TypeVar("T")


def image(told: object, files: Files) -> Optional[str]:
    """The directory of --root, without links."""
    if told is None:
        return None
    path = absolute(str(told), "--root")
    real = _asked("--root", lambda: files.real(path))
    entry = _asked("--root", lambda: files.stat(path))
    if real is None or entry is None:
        raise Refused(_("{option}: {path} does not exist").format(option="--root", path=path))
    if not entry.is_dir:
        raise Refused(_("{option}: {path} is not a directory").format(option="--root", path=path))
    return real


def program(config: Config, files: Files, root: Optional[str]) -> Optional[str]:
    """The interpreter that was named, as a path inside the root; links are kept, a venv is one."""
    told = config["python"]
    if told is None:
        return None
    option = config.origin["python"]
    path = absolute(told, option) if root is None else os.path.join("/", told)
    entry = _asked(option, lambda: files.stat(path))
    if entry is None:
        raise Refused(_("{option}: {path} does not exist").format(option=option, path=path))
    if not entry.is_file:
        raise Refused(_("{option}: {path} is not a regular file").format(option=option, path=path))
    return path


def script(told: object, files: Files) -> str:
    """The script of --source."""
    path = absolute(str(told), "--source")
    entry = _asked("--source", lambda: files.stat(path))
    if entry is None:
        raise Refused(_("{option}: {path} does not exist").format(option="--source", path=path))
    if not entry.is_file:
        raise Refused(_("{option}: {path} is not a regular file").format(option="--source", path=path))
    return path


def writable(told: Optional[str], files: Files, option: str = "--output") -> Optional[str]:
    """The file of --output, once it is certain that it could be written; None for standard output."""
    if told is None or told == "-":
        return None
    path = absolute(told, option)
    entry = _asked(option, lambda: files.stat(path))
    # A device or a pipe would be replaced by a file.
    if path.endswith("/") or (entry is not None and not entry.is_file):
        raise Refused(_("{option}: {path} is not a regular file").format(option=option, path=path))
    folder = os.path.dirname(path)
    _asked(option, lambda: files.stat(folder))  # before we touch it ourselves: it may never answer
    trial = os.path.join(folder, f".npudoctor-{os.urandom(8).hex()}")
    try:
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(trial)
    except OSError as error:
        raise Refused(f"{option}: {path}: {strerror(error.errno)}") from error
    return path


def own_file(told: Optional[str], files: Files, option: str) -> Optional[str]:
    """The same for a file that shells will obey: no link is followed, and nobody else's file replaced."""
    path = writable(told, files, option)
    entry = _asked(option, lambda: files.lstat(path)) if path is not None else None
    if entry is not None and entry.is_link:
        raise Refused(_("{option}: {path} is a symbolic link").format(option=option, path=path))
    if entry is not None and entry.uid != os.geteuid():
        raise Refused(_("{option}: {path} belongs to another user").format(option=option, path=path))
    return path


def _asked(option: str, question: Callable[[], T]) -> T:
    try:
        return question()
    except CannotTell as error:
        raise Refused(f"{option}: {error.reason}") from error
