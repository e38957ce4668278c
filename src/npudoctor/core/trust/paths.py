"""Whether code may be loaded from a path, asked of the kernel: only root and this user could write it."""

from __future__ import annotations

import os
import stat
from typing import Optional

from npudoctor.core.messages import _, strerror
from npudoctor.core.mounts import MOUNTINFO, UTAB, user_mount_points
from npudoctor.core.trust.rule import why_not_elsewhere, why_not_entry, why_not_mounted

# MAXSYMLINKS of the kernel.
LINKS = 40


def why_untrusted(path: str, euid: int) -> Optional[str]:
    """Why another user could change what is at a path; None when only root and `euid` could.

    The path, all its parents and the links on the way must be root's or ours, and nobody else may write them
    (a sticky directory is fine as a parent), nor create files in a directory at its end. A file system that
    another user mounted is never trusted: that user chooses the owners of its files.
    """
    parts = _stat_steps(os.path.abspath(path))
    last = parts[-1][1]
    # As a parent a sticky folder is safe; as the last part others could add files to it.
    if stat.S_ISDIR(last.st_mode) and last.st_mode & stat.S_ISVTX:
        reason = why_not_entry(path, last.st_uid, last.st_mode, (last.st_uid,), place=True)
        if reason:
            return reason
    listed, device = _read_text(MOUNTINFO), parts[0][1].st_dev  # read each time, as others mount while we run
    points = tuple(user_mount_points(listed, _read_text(UTAB), euid))  # of others
    for part, entry in parts:
        reason = None if listed else why_not_elsewhere(part, entry.st_dev, device)
        reason = reason or why_not_mounted(part, points)
        reason = reason or why_not_entry(part, entry.st_uid, entry.st_mode, (0, euid))
        if reason:
            return reason
    return None


class PathTrust:
    """`why_untrusted` for hundreds of paths: each folder on the way and the list of mounts are read once."""

    def __init__(self, euid: int) -> None:
        self._euid = euid
        listed = _read_text(MOUNTINFO)
        self._points = tuple(user_mount_points(listed, _read_text(UTAB), euid))  # of others
        self._blind = not listed
        self._reasons: dict[str, Optional[str]] = {}

    def why_not(self, path: str) -> Optional[str]:
        """As `why_untrusted`, for an absolute path without ".."; OSError where there is nothing."""
        if path not in self._reasons:
            reason = self.why_not(os.path.dirname(path)) if path != "/" else None
            if reason is None:
                entry = os.lstat(path)
                # Through links the way has other folders, which `why_untrusted` walks.
                if self._blind or stat.S_ISLNK(entry.st_mode):
                    reason = why_untrusted(path, self._euid)
                else:
                    reason = why_not_mounted(path, self._points)
                    reason = reason or why_not_entry(path, entry.st_uid, entry.st_mode, (0, self._euid))
            self._reasons[path] = reason
        return self._reasons[path]

    def why_not_folder(self, folder: str) -> Optional[str]:
        """The same for a folder in which names are looked up: there the sticky bit does not help."""
        reason = self.why_not(folder)
        if reason is None:
            entry = os.stat(folder)
            reason = why_not_entry(folder, entry.st_uid, entry.st_mode, (0, self._euid), place=True)
        return reason


def read_trusted(path: str, euid: int, limit: int = 4 << 20) -> tuple[Optional[bytes], Optional[str]]:
    """(content, None) of a trusted regular file, or (None, the reason why it is not read). `limit`: bytes.

    It is opened once and judged by what was opened, so that a swap after the look changes nothing.
    """
    try:
        reason = why_untrusted(path, euid)
        if reason:
            return None, reason
        # O_NONBLOCK: opening a FIFO without a writer would wait for one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            entry = os.fstat(descriptor)
            if not stat.S_ISREG(entry.st_mode):
                return None, _("{path} is not a regular file", path=path)
            reason = why_not_entry(path, entry.st_uid, entry.st_mode, (0, euid))
            if reason:
                return None, reason
            # One byte more tells that there is more.
            content = file.read(limit + 1)
            if len(content) > limit:
                return None, _("{path} is larger than {most} bytes", path=path, most=limit)
            return content, None
    except OSError as error:
        return None, _("{path} cannot be read: {why}", path=path, why=strerror(error.errno))


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return file.read()
    except OSError:
        return ""


def _stat_steps(path: str) -> list[tuple[str, os.stat_result]]:
    """lstat of every step from "/" to the path, through links; OSError when one is missing or the links
    loop.
    """
    entries = [("/", os.lstat("/"))]
    # As the kernel walks: each link is replaced by its target.
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
                # ELOOP on Linux.
                raise OSError(40, "too many links", path)
            target = os.readlink(here)
            if target.startswith("/"):
                done = []
            todo = target.split("/") + todo
        else:
            done.append(part)
    return entries
