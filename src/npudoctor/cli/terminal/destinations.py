"""Finds out what an output path is: an inherited descriptor, a pipe or device, or a file to replace.

Only a regular file is ever replaced. /dev/stdout is a link: renaming a file over it would replace it for
every process of the machine.
"""

from __future__ import annotations

import os
import stat
from typing import Optional

from npudoctor.cli.config import UsageError
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.host import CannotTell
from npudoctor.host.fs.disk import PathStatus
from npudoctor.host.fs.files import Files

_DESCRIPTOR = pattern(r"/proc/(\d+)(?:/task/\d+)?/fd/(\d+)")
_LINKS = 40  # the kernel's limit for one path (path_resolution(7))


def parse_own_descriptor(path: str, option: str) -> Optional[int]:
    """The inherited descriptor that a path names (/dev/stdout, /dev/fd/3, /proc/self/fd/3); None for
    others."""
    original_path = path
    for _link in range(_LINKS):
        try:  # realpath raises, too, when directories are exchanged meanwhile
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            match = _DESCRIPTOR.fullmatch(path)
            if match:
                # Descriptors that npudoctor opened are not inheritable: the caller cannot mean one of them.
                number = int(match[2])
                # The pid matters: /proc/1234/fd/3 is a descriptor of another process.
                if int(match[1]) == os.getpid() and _is_inheritable(number):
                    return number
                raise UsageError(
                    _("{option}: {path} is not an open descriptor", option=option, path=original_path)
                )
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return None
    return None


def _is_inheritable(number: int) -> bool:
    """Whether a descriptor is open and inheritable; a function of its own for its own OSError."""
    try:
        return os.get_inheritable(number)
    except OSError:
        return False


def resolve_target(path: str, files: Files, option: str) -> tuple[str, Optional[PathStatus]]:
    """The path to write to, and the entry there (None when there is none).

    A link to a file, or a dangling one, is replaced and not followed; one to a pipe or a device is followed.
    Raises UsageError when nothing may be written there.
    """
    try:
        link_entry, entry = files.lstat(path), files.stat(path)
        is_replaced = entry is None or entry.is_file
        way = files.entries_on_path(os.path.dirname(path) if is_replaced else path)
        folder = files.stat(os.path.dirname(path))
    except CannotTell as error:
        raise UsageError(f"{option}: {error.reason}") from error
    user = os.geteuid()
    for parent, link in zip(way, way[1:]):
        # Root follows only its own links; other users none that another user put into a shared directory
        # (/tmp).
        is_shared = parent.is_sticky and bool(parent.permissions & 0o022)
        if link.is_link and link.uid not in (0, user) and (is_shared or user == 0):
            raise UsageError(
                _(
                    "{option}: {path} goes through a symbolic link that belongs to another user",
                    option=option,
                    path=path,
                )
            )
    if link_entry is None:
        return path, entry
    if entry and not (entry.is_file or stat.S_ISFIFO(entry.mode) or stat.S_ISCHR(entry.mode)):
        raise UsageError(_("{option}: {path} is not a regular file", option=option, path=path))
    # In a sticky directory another user's file is never replaced nor written to, not even by root.
    owners = (user, folder.uid if folder else 0)
    if folder and folder.is_sticky and folder.permissions & 0o022 and link_entry.uid not in owners:
        raise UsageError(_("{option}: {path} belongs to another user", option=option, path=path))
    return path, entry
