"""The few operations on a disk of which all others are made; what may block is asked in a child."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Optional, Protocol

from npudoctor.core.frozen import dataclass
from npudoctor.core.mounts import Mounts

if TYPE_CHECKING:
    from npudoctor.host.fs.blocking import MountChild


@dataclass(frozen=True)
class Entry:
    """What lstat says of a path; times in nanoseconds. `held`: the bytes of memory or disk that it takes."""

    mode: int
    ino: int
    dev: int
    nlink: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int
    held: int = 0

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_program(self) -> bool:
        """A regular file that somebody may execute."""
        return self.is_file and bool(self.mode & 0o111)

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


def _decoded(text: str) -> bytes:
    """Bytes as a child sends them."""
    from base64 import b64decode  # hardly any machine has a mount that may block where we look

    return b64decode(text)


def entry_of(status: os.stat_result) -> Entry:
    """A stat result as an Entry."""
    return Entry(
        status.st_mode, status.st_ino, status.st_dev, status.st_nlink, status.st_uid, status.st_gid,
        status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_blocks * 512,
    )  # fmt: skip


@dataclass(frozen=True)
class Space:
    """What statvfs says of the file system that holds a path: bytes and inodes, in all and free for users.

    `inodes` is 0 where the file system makes them as it needs them. `read_only`: nobody writes here, whatever
    is free.
    """

    total: int
    free: int
    inodes: int
    inodes_free: int
    device: int
    read_only: bool = False


# What is no file and no link, in the place of a size: a directory, a device.
NO_FILE, LINK, CLOSED = -2, -3, -4


@dataclass(frozen=True)
class Opened:
    """A file that is held open while many parts of it are read: `read(start, size)`.

    `hole(start)`: where the next stretch begins that no block of the disk holds and reads as zeros, with its
    end; None where there is none, or the file system does not tell. `mtime`: in whole seconds.
    """

    read: Callable[[int, int], bytes]
    hole: Callable[[int], Optional[tuple[int, int]]]
    mtime: int


class Disk(Protocol):
    """The operations that everything else is made of; OSError as os gives it."""

    def lstat(self, path: str) -> Entry: ...

    def readlink(self, path: str) -> str: ...

    def names(self, path: str, most: int = 0) -> list[str]: ...

    def owners(self, path: str) -> list[tuple[str, int, int]]: ...

    def sizes(self, folder: str, names: Sequence[str]) -> list[int]: ...

    def read(self, path: str, limit: int, start: int = 0) -> bytes: ...

    def opened(self, path: str) -> AbstractContextManager[Opened]: ...

    def parts(
        self, folder: str, names: Sequence[str], starts: Sequence[int], length: int
    ) -> list[Optional[bytes]]: ...

    def may_block(self, path: str) -> bool: ...

    def accessible(self, path: str, mode: int) -> bool: ...

    def space(self, path: str) -> Space: ...

    def close(self) -> None: ...


PIECE = 1 << 20


class LocalDisk:
    """The disk of this machine; what may block is asked in a child process."""

    def __init__(self, deadline: float = 3.0, mounts: Optional[Mounts] = None) -> None:
        self.deadline = deadline  # for one question to a child
        self._mounts = mounts
        self._outside: dict[str, MountChild] = {}

    def lstat(self, path: str) -> Entry:
        outside = self._ask_outside(path)
        if outside is None:
            return entry_of(os.lstat(path))
        answer = outside.ask("lstat", path)
        return Entry(*answer[:7], *answer[-3:])

    def readlink(self, path: str) -> str:
        outside = self._ask_outside(path)
        if outside is None:
            return os.readlink(path)
        return os.fsdecode(_decoded(outside.ask("readlink", path)))

    def names(self, path: str, most: int = 0) -> list[str]:
        outside = self._ask_outside(path)
        if outside is not None:
            return [os.fsdecode(_decoded(name)) for name in outside.ask("names", path, most)]
        if not most:
            return os.listdir(path)
        with os.scandir(path) as entries:
            return [entry.name for entry in islice(entries, most)]

    def owners(self, path: str) -> list[tuple[str, int, int]]:
        """Name, uid and mode of each entry of a folder, links not followed: hundreds at the cost of a few."""
        outside = self._ask_outside(path)
        if outside is not None:
            answer = outside.ask("owners", path)
            return [(os.fsdecode(_decoded(name)), uid, mode) for name, uid, mode in answer]
        with os.scandir(path) as entries:
            statuses = ((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
            return [(name, entry.st_uid, entry.st_mode) for name, entry in statuses]

    def sizes(self, folder: str, names: Sequence[str]) -> list[int]:
        """Of each relative path below a folder the bytes that lstat tells; -1 where nothing is, NO_FILE for
        what is no regular file, LINK for a link, which is not followed, CLOSED in a folder that this user may
        not enter."""
        outside = self._ask_outside(folder)
        if outside is not None:
            answer: list[int] = outside.ask("sizes", "\0".join((folder, *names)))
            return answer
        sizes = []
        for name in names:
            try:
                status = os.lstat(f"{folder}/{name}")
            except (FileNotFoundError, NotADirectoryError):
                sizes.append(-1)
                continue
            except PermissionError:
                sizes.append(CLOSED)
                continue
            if status.st_mode & 0o170000 == stat.S_IFREG:
                sizes.append(status.st_size)
            else:
                sizes.append(LINK if stat.S_ISLNK(status.st_mode) else NO_FILE)
        return sizes

    def read(self, path: str, limit: int, start: int = 0) -> bytes:
        outside = self._ask_outside(path)
        if outside is not None:
            return _decoded(outside.ask("read", path, limit, start))
        # O_NONBLOCK: a FIFO put in place of a file since lstat must not hold us.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if start:
                file.seek(start)
            # What is left of a file, up to a limit; in pieces, as read(limit) sets aside all of the limit
            # at once: 64 MiB are more than a shell with `ulimit -v` may have, for tables of some lines.
            parts = []
            while limit > 0:
                part = file.read(min(limit, PIECE))
                if not part:
                    break
                parts.append(part)
                limit -= len(part)
            return b"".join(parts)

    @contextmanager
    def opened(self, path: str) -> Iterator[Opened]:
        """A file of which many small parts are read: opened once, where it lies on a local disk."""
        if self._ask_outside(path) is not None:
            moment = self.lstat(path).mtime_ns // 10**9
            yield Opened(lambda start, size: self.read(path, size, start), lambda start: None, moment)
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            moment = int(os.fstat(descriptor).st_mtime)
            yield Opened(
                lambda start, size: os.pread(descriptor, size, start),
                lambda start: _hole(descriptor, start),
                moment,
            )
        finally:
            os.close(descriptor)

    def parts(
        self, folder: str, names: Sequence[str], starts: Sequence[int], length: int
    ) -> list[Optional[bytes]]:
        """Of each relative path below a folder some bytes from a start on, links not followed; None where
        this user may not read it, and none at all from what may block: hundreds of files are asked for."""
        if self._ask_outside(folder) is not None:
            return [b""] * len(names)
        beside = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            parts: list[Optional[bytes]] = []
            for name, start in zip(names, starts):
                try:
                    descriptor = os.open(name, _FILE, dir_fd=beside)
                except OSError as error:
                    parts.append(None if isinstance(error, PermissionError) else b"")
                    continue
                try:
                    parts.append(os.pread(descriptor, length, start))
                except OSError:
                    parts.append(b"")
                finally:
                    os.close(descriptor)
            return parts
        finally:
            os.close(beside)

    def may_block(self, path: str) -> bool:
        """Whether a path without links lies on a mount that may block."""
        return self._ask_outside(path) is not None

    def accessible(self, path: str, mode: int) -> bool:
        """What access(2) says, which sees access lists and namespaces too; in a child, for device nodes.

        OSError where the path cannot be reached, CannotTell when there is no answer in time.
        """
        point = path.rsplit("/", 1)[0] or "/"
        return bool(self._child(point).ask("access", path, mode))

    def space(self, path: str) -> Space:
        """What statvfs(2) says of a path without links; OSError, or CannotTell when there is no answer."""
        outside = self._ask_outside(path)
        if outside is not None:
            return Space(*outside.ask("space", path))
        # The file systems that are known to be local answer from memory.
        status = os.statvfs(path)
        return Space(
            status.f_blocks * status.f_frsize,
            status.f_bavail * status.f_frsize,
            status.f_files,
            status.f_favail,
            os.stat(path).st_dev,
            bool(status.f_flag & os.ST_RDONLY),
        )

    def close(self) -> None:
        """End the children that were asked."""
        for outside in self._outside.values():
            outside.close()

    def forget(self) -> None:
        """In a forked process: the children belong to the parent; new ones are started when needed."""
        self._outside = {}

    def _ask_outside(self, path: str) -> Optional[MountChild]:
        """The child that is asked about a path on a mount that may block; None where we look ourselves."""
        if self._mounts is None:
            self._mounts = Mounts.of_this_machine()
        mount = self._mounts.risky(path)
        return None if mount is None else self._child(mount.point)

    def _child(self, point: str) -> MountChild:
        from npudoctor.host.fs.blocking import MountChild  # most machines have only local mounts

        return self._outside.setdefault(point, MountChild(point, self.deadline))


_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


def _hole(descriptor: int, start: int) -> Optional[tuple[int, int]]:
    """To the kernel a file without holes has one at its end."""
    first, size = start, os.fstat(descriptor).st_size
    try:
        first = os.lseek(descriptor, start, os.SEEK_HOLE) if start < size else size
        return (first, os.lseek(descriptor, first, os.SEEK_DATA)) if first < size else None
    except OSError as error:
        # ENXIO of the second question: zeros up to the end.
        return (first, size) if error.errno == errno.ENXIO and start <= first < size else None
