"""Validates the paths that options name, before any check runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Callable, Optional, TypeVar

from npudoctor.cli.config import Config, UsageError, absolute_path
from npudoctor.core.messages import _
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files, PathStatus

T = TypeVar("T")


def resolve_image(value: str, files: Files) -> Optional[str]:
    """The directory of --root, with links resolved."""
    path = absolute_path(value, "--root")
    real = _ask_files("--root", lambda: files.real(path))
    entry = _expect_existing("--root", path, files)
    if not entry.is_dir:
        raise UsageError(_("{option}: {path} is not a directory", option="--root", path=path))
    return real


def resolve_interpreter(config: Config, files: Files, root: Optional[str]) -> str:
    """The path of the chosen interpreter inside the root; links are kept, as a venv's python is one."""
    value, option = config["python"], config.origin["python"]
    path = absolute_path(value, option) if root is None else os.path.join("/", value)
    # A dangling link is not a usage error: the check of the interpreter reports it.
    if not _ask_files(option, lambda: files.stat(path) is None and files.lstat(path) is not None):
        _expect_file(option, path, files)
    return path


def resolve_script(value: object, files: Files) -> str:
    """The absolute path of the script of --source."""
    path = absolute_path(str(value), "--source")
    _expect_file("--source", path, files)
    return path


def _expect_existing(option: str, path: str, files: Files) -> PathStatus:
    """The entry at a path; raises UsageError when it does not exist."""
    entry = _ask_files(option, lambda: files.stat(path))
    if entry is None:
        raise UsageError(_("{option}: {path} does not exist", option=option, path=path))
    return entry


def _expect_file(option: str, path: str, files: Files) -> None:
    if not _expect_existing(option, path, files).is_file:
        raise UsageError(_("{option}: {path} is not a regular file", option=option, path=path))


def resolve_output(value: Optional[str], files: Files, option: str = "--output") -> Optional[str]:
    """The path for --output, after testing that it can be written; None for standard output.

    Links to a pipe or a device are resolved; an inherited descriptor becomes /proc/self/fd/N. Raises
    UsageError when the path cannot be written.
    """
    if value is None or value == "-":
        return None
    from npudoctor.cli.terminal.destinations import parse_own_descriptor, resolve_target

    path = absolute_path(value, option)
    _ask_files(option, lambda: files.stat(os.path.dirname(path)))  # in a child: a dead mount never answers
    number = parse_own_descriptor(path, option)
    if number is not None:
        return None if number == 1 else f"/proc/self/fd/{number}"
    if path.endswith("/"):
        raise UsageError(_("{option}: {path} is not a regular file", option=option, path=path))
    real, entry = resolve_target(path, files, option)
    if entry is None or entry.is_file:
        _try_to_write(real, path, option)
    return real


def infer_format(
    format: Optional[str], output: Optional[str], endings: Sequence[str] = ("json",)
) -> Optional[str]:
    """The value of --format; when it is absent, the format of the ending of --output, if it is one."""
    ending = (output or "").rpartition(".")[2].lower()
    return ending if format is None and ending in endings and "." in (output or "") else format


def _try_to_write(real: str, path: str, option: str) -> None:
    """Create and remove a file in the target's directory; raises UsageError when that fails or hangs."""
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
        reason = str(error) if isinstance(error, way.UnsafePath) else f"{path}: {way.reason_of(error)}"
        raise UsageError(f"{option}: {reason}") from error


def resolve_own_file(value: Optional[str], files: Files, option: str) -> Optional[str]:
    """Like `resolve_output`, for a file that shells will execute: not a link, and not another user's file."""
    path = resolve_output(value, files, option)
    if path is None or path.startswith("/proc/self/fd/"):
        return path
    absolute_target = absolute_path(value or "", option)
    entry = _ask_files(option, lambda: files.lstat(absolute_target))
    if entry is not None and entry.is_link:
        raise UsageError(_("{option}: {path} is a symbolic link", option=option, path=absolute_target))
    if entry is not None and entry.is_file and entry.uid != os.geteuid():
        raise UsageError(_("{option}: {path} belongs to another user", option=option, path=absolute_target))
    return path


def _ask_files(option: str, question: Callable[[], T]) -> T:
    try:
        return question()
    except CannotTell as error:
        raise UsageError(f"{option}: {error.reason}") from error
