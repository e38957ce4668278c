"""Whether code may be loaded from a path, asked of the kernel: only root and this user could write it."""

from __future__ import annotations

import os
import stat
from typing import Optional

from npudoctor.core.messages import _, strerror
from npudoctor.core.mounts import MOUNTINFO, UTAB, user_mount_points
from npudoctor.core.trust.rule import why_not_elsewhere, why_not_entry, why_not_mounted

LINKS = 40


def why_untrusted(path: str, euid: int) -> Optional[str]:
    """None when the path, all its parents and the links on the way are root's or ours and nobody else
    may write them (a sticky directory is fine as a parent); else the reason.

    Others may not create files in a directory either. A file system that another user mounted is never
    trusted: that user chooses the owners of its files.
    """
    parts = _parts(os.path.abspath(path))
    last = parts[-1][1]
    if stat.S_ISDIR(last.st_mode) and last.st_mode & stat.S_ISVTX:
        reason = why_not_entry(path, last.st_uid, last.st_mode, (last.st_uid,), place=True)
        if reason:
            return reason
    listed, device = _text(MOUNTINFO), parts[0][1].st_dev  # read each time, as others mount while we run
    points = tuple(user_mount_points(listed, _text(UTAB), euid))  # of others
    for part, entry in parts:
        reason = None if listed else why_not_elsewhere(part, entry.st_dev, device)
        reason = reason or why_not_mounted(part, points)
        reason = reason or why_not_entry(part, entry.st_uid, entry.st_mode, (0, euid))
        if reason:
            return reason
    return None


class Ways:
    """`why_untrusted` for hundreds of paths: each folder on the way is looked at once, as are the mounts."""

    def __init__(self, euid: int) -> None:
        self._euid = euid
        listed = _text(MOUNTINFO)
        self._points = tuple(user_mount_points(listed, _text(UTAB), euid))  # of others
        self._blind = not listed
        self._known: dict[str, Optional[str]] = {}

    def why_not(self, path: str) -> Optional[str]:
        """As of `why_untrusted`, of an absolute path without "..": OSError where there is nothing."""
        if path not in self._known:
            reason = self.why_not(os.path.dirname(path)) if path != "/" else None
            if reason is None:
                entry = os.lstat(path)
                if self._blind or stat.S_ISLNK(entry.st_mode):
                    reason = why_untrusted(path, self._euid)
                else:
                    reason = why_not_mounted(path, self._points)
                    reason = reason or why_not_entry(path, entry.st_uid, entry.st_mode, (0, self._euid))
            self._known[path] = reason
        return self._known[path]

    def why_not_folder(self, folder: str) -> Optional[str]:
        """The same of a folder in which names are looked up, so that sticky does not help."""
        reason = self.why_not(folder)
        if reason is None:
            entry = os.stat(folder)
            reason = why_not_entry(folder, entry.st_uid, entry.st_mode, (0, self._euid), place=True)
        return reason


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
            entry = os.fstat(descriptor)
            if not stat.S_ISREG(entry.st_mode):
                return None, _("{path} is not a regular file", path=path)
            reason = why_not_entry(path, entry.st_uid, entry.st_mode, (0, euid))
            if reason:
                return None, reason
            content = file.read(limit + 1)
            if len(content) > limit:
                return None, _("{path} is larger than {most} bytes", path=path, most=limit)
            return content, None
    except OSError as error:
        return None, _("{path} cannot be read: {why}", path=path, why=strerror(error.errno))


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return file.read()
    except OSError:
        return ""


def _parts(path: str) -> list[tuple[str, os.stat_result]]:
    """lstat of every step from "/" to the path, through links; OSError when one is missing or loops."""
    entries = [("/", os.lstat("/"))]
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
        entries.append((here, entry))
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
    return entries
