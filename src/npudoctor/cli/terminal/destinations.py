"""What a path to write to really is: one of our own descriptors, a pipe or device, or a file to be replaced.

Only a regular file is ever replaced. /dev/stdout is a link: a rename over it would put a file in its place,
for every process of the machine.
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
_LINKS = 40  # as many as the kernel follows


def own_descriptor(path: str, option: str) -> Optional[int]:
    """The descriptor that a path names (/dev/stdout, /dev/fd/3, /proc/self/fd/3), if we were given it."""
    named = path
    for _link in range(_LINKS):
        try:  # realpath, too, raises where folders are exchanged meanwhile
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            match = _DESCRIPTOR.fullmatch(path)
            if match:
                # What we opened ourselves is not inheritable, and is not the caller's to name.
                number = int(match[2])
                if int(match[1]) == os.getpid() and _is_inheritable(number):
                    return number
                raise UsageError(_("{option}: {path} is not an open descriptor", option=option, path=named))
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return None
    return None


def _is_inheritable(number: int) -> bool:
    """Apart for its own OSError: a number that is closed is refused, not followed."""
    try:
        return os.get_inheritable(number)
    except OSError:
        return False


def resolve_target(path: str, files: Files, option: str) -> tuple[str, Optional[PathStatus]]:
    """The path to write to, and what is there, None for nothing; UsageError where nothing may be written.

    A link to a file, or to nothing, is replaced and not followed; one to a pipe or a device is followed.
    """
    try:
        there, entry = files.lstat(path), files.stat(path)
        replaced = entry is None or entry.is_file
        way = files.entries_on_path(os.path.dirname(path) if replaced else path)
        folder = files.stat(os.path.dirname(path))
    except CannotTell as error:
        raise UsageError(f"{option}: {error.reason}") from error
    user = os.geteuid()
    for before, link in zip(way, way[1:]):
        # Root follows only its own links; others not what anybody may have put into a shared folder.
        shared = before.is_sticky and bool(before.permissions & 0o022)
        if link.is_link and link.uid not in (0, user) and (shared or user == 0):
            raise UsageError(
                _(
                    "{option}: {path} goes through a symbolic link that belongs to another user",
                    option=option,
                    path=path,
                )
            )
    if there is None:
        return path, entry
    if entry and not (entry.is_file or stat.S_ISFIFO(entry.mode) or stat.S_ISCHR(entry.mode)):
        raise UsageError(_("{option}: {path} is not a regular file", option=option, path=path))
    # In a folder that all share nothing of anybody else's is replaced, not even by root, nor fed.
    owners = (user, folder.uid if folder else 0)
    if folder and folder.is_sticky and folder.permissions & 0o022 and there.uid not in owners:
        raise UsageError(_("{option}: {path} belongs to another user", option=option, path=path))
    return path, entry
