"""Whether code may be loaded from a path: nobody but root and ourselves could have put it there."""

from __future__ import annotations

import os
import stat
from typing import Optional

from npudoctor.messages import _, strerror

LINKS = 40


def why_untrusted(path: str, euid: int) -> Optional[str]:
    """None when the path, all its parents and the links on the way are root's or ours and nobody else
    may write them (a sticky directory is fine as a parent); else the reason."""
    for part, found in _parts(os.path.abspath(path)):
        if found.st_uid not in (0, euid):
            return _("{path} belongs to another user").format(path=part)
        if stat.S_ISLNK(found.st_mode):
            continue  # a link has no mode of its own; its owner and its folder are what counts
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_mode & 0o022 and not sticky:
            return _("{path} may be written by others").format(path=part)
    return None


def read_trusted(path: str, euid: int, limit: int = 4 << 20) -> tuple[Optional[bytes], Optional[str]]:
    """The content of a trusted regular file, or the reason why it is not read.

    It is opened once and judged by what was opened, so that a swap after the look changes nothing.
    """
    try:
        reason = why_untrusted(path, euid)
        if reason:
            return None, reason
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return None, _("{path} is not a regular file").format(path=path)
            if found.st_uid not in (0, euid):
                return None, _("{path} belongs to another user").format(path=path)
            if found.st_mode & 0o022:
                return None, _("{path} may be written by others").format(path=path)
            content = file.read(limit + 1)
            if len(content) > limit:
                return None, _("{path} is larger than {most} bytes").format(path=path, most=limit)
            return content, None
    except OSError as error:
        return None, _("{path} cannot be read: {why}").format(path=path, why=strerror(error.errno))


def _parts(path: str) -> list[tuple[str, os.stat_result]]:
    """lstat of every step from "/" to the path, through links; OSError when one is missing or loops."""
    found = [("/", os.lstat("/"))]
    todo = path.strip("/").split("/")
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        here = "/" + "/".join([*done, part])
        entry = os.lstat(here)
        found.append((here, entry))
        if stat.S_ISLNK(entry.st_mode):
            links += 1
            if links > LINKS:
                raise OSError(40, "too many links", path)
            target = os.readlink(here)
            if target.startswith("/"):
                done = []
            todo = target.split("/") + todo
        else:
            done.append(part)
    return found
