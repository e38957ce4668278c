"""The basic operations on files; on mounts that may block they run in a child process."""

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
class PathStatus:
    """What lstat(2) says of a path; times in nanoseconds since the epoch.

    `allocated_bytes`: what the blocks of the file take on its disk or in memory, less than `size` if it is
    sparse.
    """

    mode: int
    ino: int
    dev: int
    nlink: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int
    allocated_bytes: int = 0

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
        return self.mode & 0o170000 == stat.S_IFLNK

    @property
    def is_socket(self) -> bool:
        return stat.S_ISSOCK(self.mode)

    @property
    def is_sticky(self) -> bool:
        """A folder whose entries only their owners may remove or rename, such as /tmp."""
        return self.is_dir and bool(self.mode & stat.S_ISVTX)

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)


def _decode_base64(text: str) -> bytes:
    """Decode bytes as a child sends them."""
    from base64 import b64decode  # hardly any machine has a mount that may block where we look

    return b64decode(text)


def entry_from_stat(status: os.stat_result) -> PathStatus:
    """Convert a result of os.stat."""
    return PathStatus(
        status.st_mode, status.st_ino, status.st_dev, status.st_nlink, status.st_uid, status.st_gid,
        # st_blocks counts 512 bytes each, whatever the block size of the file system is: stat(2).
        status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_blocks * 512,
    )  # fmt: skip


@dataclass(frozen=True)
class Space:
    """What statvfs(2) says of a file system: bytes and inodes, in total and free for ordinary users.

    `inodes`: 0 if the file system creates them on demand, as btrfs does. `device`: st_dev of the path.
    `read_only`: mounted so, and nothing can be written whatever is free.
    """

    total: int
    free: int
    inodes: int
    inodes_free: int
    device: int
    read_only: bool = False


# In place of a size: a directory or device, a link, a file that this user may not read or one in a folder
# that he may not list and enter, as Python does before it imports.
NO_FILE, LINK, CLOSED = -2, -3, -4


@dataclass(frozen=True)
class OpenFile:
    """An open file of which many parts are read.

    `read(start, size)`: at most `size` bytes from the offset `start`. `hole(start)`: the start and end of the
    next hole of a sparse file at or after `start`; None if there is none, or if the file system does not say.
    `mtime`: in whole seconds since the epoch.
    """

    read: Callable[[int, int], bytes]
    hole: Callable[[int], Optional[tuple[int, int]]]
    mtime: int


class Disk(Protocol):
    """The basic operations on files; paths are absolute and free of links. Errors are OSError, as of `os`,
    or CannotTell if a mount does not answer. LocalDisk says what each method returns."""

    def lstat(self, path: str) -> PathStatus: ...

    def readlink(self, path: str) -> str: ...

    def names(self, path: str, most: int = 0) -> list[str]: ...

    def owners(self, path: str) -> list[tuple[str, int, int]]: ...

    def stamps(self, folder: str, names: Sequence[str]) -> tuple[list[int], list[int]]: ...

    def read(self, path: str, limit: int, start: int = 0) -> bytes: ...

    def open_file(self, path: str) -> AbstractContextManager[OpenFile]: ...

    def parts(
        self, folder: str, names: Sequence[str], starts: Sequence[int], length: int
    ) -> list[Optional[bytes]]: ...

    def may_block(self, path: str) -> bool: ...

    def may_access(self, path: str, mode: int) -> bool: ...

    def space(self, path: str) -> Space: ...

    def close(self) -> None: ...


READ_CHUNK_BYTES = 1 << 20


def _opens(path: str) -> bool:
    try:
        # O_NONBLOCK: a FIFO would wait for a writer.
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def make_closed_test(folder: str) -> Callable[[str], bool]:
    """A function that says whether this user may not read a file below the folder, by its relative path.

    The kernel is asked (access(2)), which knows groups, and ACLs: one may exclude a user from a file that
    everybody else may read, at a mode of 0644. It leaves out capabilities (`setpriv --ambient-caps`), so that
    what it refuses is opened.
    """
    closed_by_folder: dict[str, bool] = {}

    def is_closed(name: str) -> bool:
        above = name.rpartition("/")[0]
        if above not in closed_by_folder:
            path = f"{folder}/{above}"
            closed_by_folder[above] = not (os.access(path, os.R_OK | os.X_OK) or _opens(f"{path}/."))
        if closed_by_folder[above]:
            return True
        path = f"{folder}/{name}"
        return not (os.access(path, os.R_OK) or _opens(path))

    return is_closed


class LocalDisk:
    """The files of this machine; on a mount that may block, a child process does each operation.

    `deadline`: how long one answer of a child may take, in seconds.
    """

    def __init__(self, deadline: float = 3.0, mounts: Optional[Mounts] = None) -> None:
        self.deadline = deadline  # for one question to a child
        self._mounts = mounts
        self._child_by_mount: dict[str, MountChild] = {}

    def lstat(self, path: str) -> PathStatus:
        child = self._child_for(path)
        if child is None:
            return entry_from_stat(os.lstat(path))
        answer = child.ask("lstat", path)
        return PathStatus(*answer[:7], *answer[-3:])

    def readlink(self, path: str) -> str:
        child = self._child_for(path)
        if child is None:
            return os.readlink(path)
        return os.fsdecode(_decode_base64(child.ask("readlink", path)))

    def names(self, path: str, most: int = 0) -> list[str]:
        child = self._child_for(path)
        if child is not None:
            return [os.fsdecode(_decode_base64(name)) for name in child.ask("names", path, most)]
        if not most:
            return os.listdir(path)
        with os.scandir(path) as entries:
            return [entry.name for entry in islice(entries, most)]

    def owners(self, path: str) -> list[tuple[str, int, int]]:
        """Name, uid and mode of each entry of a folder, links not followed.

        On a mount that may block this is one question for all entries.
        """
        child = self._child_for(path)
        if child is not None:
            answer = child.ask("owners", path)
            return [(os.fsdecode(_decode_base64(name)), uid, mode) for name, uid, mode in answer]
        with os.scandir(path) as entries:
            return [
                (entry.name, status.st_uid, status.st_mode)
                for entry in entries
                for status in (entry.stat(follow_symlinks=False),)
            ]

    def stamps(self, folder: str, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """The size in bytes of each relative path below a folder, and when it was written, in whole seconds.

        In place of a size: -1 if nothing is there, LINK for a link, which is not followed, NO_FILE for what
        else is not a regular file, CLOSED for what this user may not read.
        """
        child = self._child_for(folder)
        if child is not None:
            sizes, mtimes = child.ask("stamps", "\0".join((folder, *names)))
            return sizes, mtimes
        sizes, mtimes = [], []
        # Root reads all of a local disk.
        is_closed = None if os.geteuid() == 0 else make_closed_test(folder)
        for name in names:
            mtimes.append(0)
            try:
                status = os.lstat(f"{folder}/{name}")
            except (FileNotFoundError, NotADirectoryError):
                sizes.append(-1)
                continue
            except PermissionError:
                sizes.append(CLOSED)
                continue
            if status.st_mode & 0o170000 == stat.S_IFREG:
                sizes.append(CLOSED if is_closed and is_closed(name) else status.st_size)
                mtimes[-1] = int(status.st_mtime)
            else:
                sizes.append(LINK if stat.S_ISLNK(status.st_mode) else NO_FILE)
        return sizes, mtimes

    def read(self, path: str, limit: int, start: int = 0) -> bytes:
        child = self._child_for(path)
        if child is not None:
            return _decode_base64(child.ask("read", path, limit, start))
        # O_NONBLOCK: opening a FIFO that has replaced the file since lstat would wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if start:
                file.seek(start)
            # In chunks: read(limit) allocates all of the limit at once, and 64 MiB for a short table are
            # more than a process under `ulimit -v` may have left.
            parts = []
            while limit > 0:
                part = file.read(min(limit, READ_CHUNK_BYTES))
                if not part:
                    break
                parts.append(part)
                limit -= len(part)
            return b"".join(parts)

    @contextmanager
    def open_file(self, path: str) -> Iterator[OpenFile]:
        """Open a file of which many small parts are read; on a mount that may block each read opens it."""
        if self._child_for(path) is not None:
            mtime = self.lstat(path).mtime_ns // 10**9
            yield OpenFile(lambda start, size: self.read(path, size, start), lambda start: None, mtime)
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mtime = int(os.fstat(descriptor).st_mtime)
            yield OpenFile(
                lambda start, size: os.pread(descriptor, size, start),
                lambda start: _find_hole(descriptor, start),
                mtime,
            )
        finally:
            os.close(descriptor)

    def parts(
        self, folder: str, names: Sequence[str], starts: Sequence[int], length: int
    ) -> list[Optional[bytes]]:
        """`length` bytes of each relative path below a folder, from its start on; links are not followed.

        None for a file that this user may not read, b"" for one that is missing. From a mount that may block
        nothing is read, as this is asked of hundreds of files: all are b"".
        """
        if self._child_for(folder) is not None:
            return [b""] * len(names)
        folder_descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            parts: list[Optional[bytes]] = []
            for name, start in zip(names, starts):
                try:
                    descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder_descriptor)
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
            os.close(folder_descriptor)

    def may_block(self, path: str) -> bool:
        """Whether a path without links lies on a mount that may block."""
        return self._child_for(path) is not None

    def may_access(self, path: str, mode: int) -> bool:
        """What access(2) says, which also respects ACLs and namespaces. `mode`: os.R_OK and so on.

        Always in a child, as it is asked of device nodes, whose driver may hang. OSError if the path cannot
        be reached, CannotTell if there is no answer in time.
        """
        point = path.rsplit("/", 1)[0] or "/"
        return bool(self._child(point).ask("access", path, mode))

    def space(self, path: str) -> Space:
        """What statvfs(2) says of a path without links; OSError, or CannotTell if there is no answer."""
        child = self._child_for(path)
        if child is not None:
            return Space(*child.ask("space", path))
        # Local file systems answer statvfs from memory: it cannot hang.
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
        for child in self._child_by_mount.values():
            child.close()

    def drop_children(self) -> None:
        """Start new children when they are needed: for a forked process, whose parent owns the old ones."""
        self._child_by_mount = {}

    def _child_for(self, path: str) -> Optional[MountChild]:
        """The child for the mount of a path; None if the mount is local and we look ourselves."""
        if self._mounts is None:
            self._mounts = Mounts.of_this_machine()
        mount = self._mounts.risky(path)
        return None if mount is None else self._child(mount.point)

    def _child(self, point: str) -> MountChild:
        from npudoctor.host.fs.blocking import MountChild  # most machines have only local mounts

        return self._child_by_mount.setdefault(point, MountChild(point, self.deadline))


_FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


def _find_hole(descriptor: int, start: int) -> Optional[tuple[int, int]]:
    """The next hole at or after `start`, as (start, end); None if there is none.

    lseek(2): SEEK_HOLE reports the end of the file as a hole, which is not counted here.
    """
    first, size = start, os.fstat(descriptor).st_size
    try:
        first = os.lseek(descriptor, start, os.SEEK_HOLE) if start < size else size
        return (first, os.lseek(descriptor, first, os.SEEK_DATA)) if first < size else None
    except OSError as error:
        # ENXIO of SEEK_DATA: no data follows, the hole reaches to the end of the file.
        return (first, size) if error.errno == errno.ENXIO and start <= first < size else None
