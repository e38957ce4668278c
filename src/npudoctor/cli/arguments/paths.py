"""Validates the paths that options name, before anything is checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Callable, Optional, TypeVar

from npudoctor.cli.config import Config, UsageError, absolute
from npudoctor.core.messages import _
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Entry, Files

T = TypeVar("T")


def image(value: str, files: Files) -> Optional[str]:
    """The directory of --root, without links."""
    path = absolute(value, "--root")
    real = _ask("--root", lambda: files.real(path))
    entry = _expect_existing("--root", path, files)
    if not entry.is_dir:
        raise UsageError(_("{option}: {path} is not a directory", option="--root", path=path))
    return real


def program(config: Config, files: Files, root: Optional[str]) -> str:
    """The interpreter that was named, as a path inside the root; links are kept, a venv is one."""
    value, option = config["python"], config.origin["python"]
    path = absolute(value, option) if root is None else os.path.join("/", value)
    # A link that leads nowhere is what a check must speak of.
    if not _ask(option, lambda: files.stat(path) is None and files.lstat(path) is not None):
        _expect_file(option, path, files)
    return path


def script(value: object, files: Files) -> str:
    """The script of --source."""
    path = absolute(str(value), "--source")
    _expect_file("--source", path, files)
    return path


def _expect_existing(option: str, path: str, files: Files) -> Entry:
    """What is at the path; UsageError where nothing is."""
    entry = _ask(option, lambda: files.stat(path))
    if entry is None:
        raise UsageError(_("{option}: {path} does not exist", option=option, path=path))
    return entry


def _expect_file(option: str, path: str, files: Files) -> None:
    if not _expect_existing(option, path, files).is_file:
        raise UsageError(_("{option}: {path} is not a regular file", option=option, path=path))


def writable(value: Optional[str], files: Files, option: str = "--output") -> Optional[str]:
    """The file of --output, once it is certain that it could be written; None for standard output.

    What is a pipe or a device is named without links, a descriptor of ours as /proc/self/fd/N.
    """
    if value is None or value == "-":
        return None
    from npudoctor.cli.terminal.destinations import own_descriptor, resolve_target

    path = absolute(value, option)
    _ask(option, lambda: files.stat(os.path.dirname(path)))  # before we touch it: it may never answer
    number = own_descriptor(path, option)
    if number is not None:
        return None if number == 1 else f"/proc/self/fd/{number}"
    if path.endswith("/"):
        raise UsageError(_("{option}: {path} is not a regular file", option=option, path=path))
    real, entry = resolve_target(path, files, option)
    if entry is None or entry.is_file:
        _try(real, path, option)
    return real


def format_for(
    format: Optional[str], output: Optional[str], endings: Sequence[str] = ("json",)
) -> Optional[str]:
    """The value of --format; where it was left out, what the name of the file of --output says."""
    ending = (output or "").rpartition(".")[2].lower()
    return ending if format is None and ending in endings and "." in (output or "") else format


def _try(real: str, path: str, option: str) -> None:
    """UsageError where no file can be created in its folder, or it does not answer: it may be frozen."""
    from npudoctor.core import way
    from npudoctor.core.forked import PATIENCE, Late, ask

    try:
        ask(lambda: way.try_folder(real))
    except Late as late:
        raise UsageError(
            _(
                "{option}: {path}: its file system accepts no data within {seconds:g} s",
                option=option,
                path=path,
                seconds=PATIENCE,
            )
        ) from late
    except OSError as error:
        whole = str(error) if isinstance(error, way.UnsafePath) else f"{path}: {way.reason_of(error)}"
        raise UsageError(f"{option}: {whole}") from error


def own_file(value: Optional[str], files: Files, option: str) -> Optional[str]:
    """The same for a file that shells will obey: no link is followed, and nobody else's file replaced."""
    path = writable(value, files, option)
    if path is None or path.startswith("/proc/self/fd/"):
        return path
    named = absolute(value or "", option)
    entry = _ask(option, lambda: files.lstat(named))
    if entry is not None and entry.is_link:
        raise UsageError(_("{option}: {path} is a symbolic link", option=option, path=named))
    if entry is not None and entry.is_file and entry.uid != os.geteuid():
        raise UsageError(_("{option}: {path} belongs to another user", option=option, path=named))
    return path


def _ask(option: str, question: Callable[[], T]) -> T:
    try:
        return question()
    except CannotTell as error:
        raise UsageError(f"{option}: {error.reason}") from error
