"""The few operations on a disk of which all others are made; what may block is asked in a child."""

from __future__ import annotations

import base64
import os
import stat
from typing import Optional, Protocol

from npudoctor.frozen import dataclass
from npudoctor.host.mounts import Mounts
from npudoctor.host.outside import Outside


@dataclass(frozen=True)
class Entry:
    """What lstat says of a path; times in nanoseconds."""

    mode: int
    ino: int
    dev: int
    nlink: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_socket(self) -> bool:
        return stat.S_ISSOCK(self.mode)

    @property
    def sticky(self) -> bool:
        """A folder in which others may make entries, and touch only their own."""
        return self.is_dir and bool(self.mode & stat.S_ISVTX)

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)


class Disk(Protocol):
    """The operations that everything else is made of; OSError as os gives it."""

    def lstat(self, path: str) -> Entry: ...

    def readlink(self, path: str) -> str: ...

    def names(self, path: str) -> list[str]: ...

    def read(self, path: str, limit: int, start: int = 0) -> bytes: ...

    def may_block(self, path: str) -> bool: ...

    def close(self) -> None: ...


class LocalDisk:
    """The disk of this machine; what may block is asked in a child process."""

    def __init__(self, deadline: float = 3.0, mounts: Optional[Mounts] = None) -> None:
        self.deadline = deadline  # for one question to a child
        self._mounts = mounts
        self._outside: dict[str, Outside] = {}

    def lstat(self, path: str) -> Entry:
        outside = self._ask_outside(path)
        if outside is None:
            found = os.lstat(path)
            return Entry(
                found.st_mode, found.st_ino, found.st_dev, found.st_nlink, found.st_uid, found.st_gid,
                found.st_size, found.st_mtime_ns, found.st_ctime_ns,
            )  # fmt: skip
        answer = outside.ask("lstat", path)
        return Entry(*answer[:7], *answer[-2:])

    def readlink(self, path: str) -> str:
        outside = self._ask_outside(path)
        if outside is None:
            return os.readlink(path)
        return os.fsdecode(base64.b64decode(outside.ask("readlink", path)))

    def names(self, path: str) -> list[str]:
        outside = self._ask_outside(path)
        if outside is None:
            return os.listdir(path)
        return [os.fsdecode(base64.b64decode(name)) for name in outside.ask("names", path)]

    def read(self, path: str, limit: int, start: int = 0) -> bytes:
        outside = self._ask_outside(path)
        if outside is not None:
            return base64.b64decode(outside.ask("read", path, limit, start))
        # O_NONBLOCK: a FIFO put in place of a file since lstat must not hold us.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if start:
                file.seek(start)
            return file.read(limit)

    def may_block(self, path: str) -> bool:
        """Whether a path without links lies on a mount that may block."""
        return self._mount_table().risky(path) is not None

    def close(self) -> None:
        """End the children that were asked."""
        for outside in self._outside.values():
            outside.close()

    def forget(self) -> None:
        """In a forked process: the children belong to the parent; new ones are started when needed."""
        self._outside = {}

    def _ask_outside(self, path: str) -> Optional[Outside]:
        mount = self._mount_table().risky(path)
        if mount is None:
            return None
        return self._outside.setdefault(mount.point, Outside(mount.point, self.deadline))

    def _mount_table(self) -> Mounts:
        if self._mounts is None:
            self._mounts = Mounts.of_this_machine()
        return self._mounts
