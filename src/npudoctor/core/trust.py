"""Whether code may be loaded from a path: only root and this user could have written it."""

from __future__ import annotations

import os
import stat
from typing import Optional

from npudoctor.core.messages import _, strerror

LINKS = 40
MOUNTINFO = "/proc/self/mountinfo"


def why_untrusted(path: str, euid: int) -> Optional[str]:
    """None when the path, all its parents and the links on the way are root's or ours and nobody else
    may write them (a sticky directory is fine as a parent); else the reason.

    Others may not create files in a directory either. A file system that another user mounted is never
    trusted: that user chooses the owners of its files.
    """
    parts = _parts(os.path.abspath(path))
    last = parts[-1][1].st_mode
    if stat.S_ISDIR(last) and last & stat.S_ISVTX and last & 0o022:
        return _("{path} is writable by other users", path=path)
    listed, device, points = mounts_are_listed(), parts[0][1].st_dev, mounted_by_others(euid)
    for part, entry in parts:
        if not listed and entry.st_dev != device:
            return _(
                "{path} is not on the same file system as /, and {mounts} does not show who mounted it",
                path=part,
                mounts=MOUNTINFO,
            )
        reason = _why_not_step(part, entry, points, euid)
        if reason:
            return reason
    return None


def _why_not_step(part: str, entry: os.stat_result, points: tuple[str, ...], euid: int) -> Optional[str]:
    for point in points:
        if part == point or part.startswith(f"{point}/"):
            return _(
                "{path} is on the file system at {point}, which another user mounted", path=part, point=point
            )
    if entry.st_uid not in (0, euid):
        return _("{path} belongs to another user", path=part)
    if stat.S_ISLNK(entry.st_mode):
        return None  # a link has no mode of its own; its owner and its folder are what counts
    sticky = stat.S_ISDIR(entry.st_mode) and entry.st_mode & stat.S_ISVTX
    if entry.st_mode & 0o022 and not sticky:
        return _("{path} is writable by other users", path=part)
    return None


class Ways:
    """`why_untrusted` for hundreds of paths: each folder on the way is looked at once, as are the mounts."""

    def __init__(self, euid: int) -> None:
        self._euid = euid
        listed = _text(MOUNTINFO)
        self._points = _points_of_others(listed, euid)
        self._blind = not listed
        self._known: dict[str, Optional[str]] = {}

    def why_not(self, path: str) -> Optional[str]:
        """As of `why_untrusted`, of an absolute path without "..": OSError where there is nothing."""
        if path not in self._known:
            self._known[path] = self._judged(path)
        return self._known[path]

    def why_not_folder(self, folder: str) -> Optional[str]:
        """The same of a folder in which names are looked up, so that sticky does not help."""
        reason = self.why_not(folder)
        if reason is None and os.stat(folder).st_mode & 0o022:
            return _("{path} is writable by other users", path=folder)
        return reason

    def _judged(self, path: str) -> Optional[str]:
        reason = self.why_not(os.path.dirname(path)) if path != "/" else None
        if reason is not None:
            return reason
        entry = os.lstat(path)
        if self._blind or stat.S_ISLNK(entry.st_mode):
            return why_untrusted(path, self._euid)
        return _why_not_step(path, entry, self._points, self._euid)


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
            if entry.st_uid not in (0, euid):
                return None, _("{path} belongs to another user", path=path)
            if entry.st_mode & 0o022:
                return None, _("{path} is writable by other users", path=path)
            content = file.read(limit + 1)
            if len(content) > limit:
                return None, _("{path} is larger than {most} bytes", path=path, most=limit)
            return content, None
    except OSError as error:
        return None, _("{path} cannot be read: {why}", path=path, why=strerror(error.errno))


def mounts_are_listed() -> bool:
    """Whether there is a list of the mounts; without one only the file system of "/", over which no user
    mounts anything, is not another's for certain."""
    return bool(_text(MOUNTINFO))


def mounted_by_others(euid: int) -> tuple[str, ...]:
    """The mount points whose content, owners included, another user makes up; read each time, as others mount
    while we run."""
    return _points_of_others(_text(MOUNTINFO), euid)


def _points_of_others(listed: str, euid: int) -> tuple[str, ...]:
    from npudoctor.core.mounts import UTAB, user_mount_points

    return tuple(user_mount_points(listed, _text(UTAB), euid))


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
