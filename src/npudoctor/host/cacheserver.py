"""Where MindSpore's dataset cache server leaves things: sockets, logs, spill folders. Facts only, no verdict.

What is judged for removal is reached through directory descriptors opened without following links,
because other users may write in the folders on the way (see proof/ for the rules).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host.files import Entry

PROGRAMS = ("dataset-cache-server", "cache_server")
SOCKET = re.compile(r"cache_server_p(\d{1,5})\Z")
# What our own removal renames a socket to before it unlinks it; see fixing/files.py.
PARKED = re.compile(r"\.(cache_server_p\d{1,5})\.npudoctor\.[0-9a-f]+\Z")
LOG = re.compile(r"(mindspore|dataset-cache-server|cache_server)\..*\.log\.[A-Z]+\.[\d-]+\.(\d+)\Z")
SPILL = re.compile(r"[a-z0-9]{36}\Z")
CONTAINER = re.compile(r"IMG\d{5}\.LB\Z")

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Parent:
    """One directory on the way to a candidate: who owns it and who may write it."""

    path: str
    uid: int
    mode: int

    @property
    def writable_by_others(self) -> bool:
        """Whether group or others may replace entries in it: no sticky bit protects them."""
        return bool(self.mode & 0o022) and not self.mode & stat.S_ISVTX


@dataclass(frozen=True)
class SocketFile:
    """A file at one of the four places of a cache server's socket.

    `old` places are those of the versions whose segments had mode 0666. `name` is the file's own name,
    `port` what it was called for; both differ for one that a killed removal left parked.
    """

    directory: str
    name: str
    port: int
    old: bool
    entry: Entry
    parents: tuple[Parent, ...]
    parked: bool = False

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"

    @property
    def original(self) -> str:
        """The path that the server knows it by."""
        return f"{self.directory}/cache_server_p{self.port}"

    @property
    def key(self) -> int:
        """ftok(path, 'a') of this very file, as the server computed it; unsigned, 32 bits."""
        return ftok(self.entry.dev, self.entry.ino)


def ftok(device: int, inode: int) -> int:
    """The System V key of a file for the project id 'a', from lstat's numbers: no link is followed."""
    return 0x61 << 24 | (device & 0xFF) << 16 | (inode & 0xFFFF)


def places(tmp: str = "/tmp") -> Iterator[tuple[str, bool]]:  # noqa: S108
    """The directories that may hold sockets, with whether the place is of an older version.

    The last pattern has one directory for each login name.
    """
    yield tmp, True
    yield f"{tmp}/mindspore/cache", True
    yield f"{tmp}/mindspore", False
    for name in _names(f"{tmp}/mindspore"):
        if name != "cache":
            yield f"{tmp}/mindspore/{name}", False


def socket_files(tmp: str = "/tmp") -> tuple[list[SocketFile], list[str]]:  # noqa: S108
    """The candidates at all places, and the directories that we have no right to look into."""
    found: list[SocketFile] = []
    hidden: list[str] = []
    for directory, old in places(tmp):
        try:
            with open_directory(directory) as (descriptor, parents):
                found += _candidates(descriptor, directory, old, parents)
        except PermissionError:
            hidden.append(directory)
        except OSError:
            continue  # missing, no directory, or a link
    return found, hidden


def _candidates(
    descriptor: int, directory: str, old: bool, parents: tuple[Parent, ...]
) -> Iterator[SocketFile]:
    for name in sorted(os.listdir(descriptor)):
        parked = PARKED.match(name)
        match = SOCKET.match(parked.group(1) if parked else name)
        if match:
            try:
                entry = entry_of(os.stat(name, dir_fd=descriptor, follow_symlinks=False))
            except FileNotFoundError:
                continue
            yield SocketFile(directory, name, int(match.group(1)), old, entry, parents, bool(parked))


class open_directory:  # noqa: N801  (used like open)
    """Walk to a directory from "/", no link followed; gives its descriptor and all parents with it last.

    OSError where a part is missing, a link (ELOOP, ENOTDIR), or not ours to enter.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> tuple[int, tuple[Parent, ...]]:
        here = "/"
        self._descriptor = os.open("/", _DIRECTORY)
        parents = [_parent(here, self._descriptor)]
        try:
            for part in self._path.strip("/").split("/"):
                if not part:
                    continue
                below = os.open(part, _DIRECTORY, dir_fd=self._descriptor)
                os.close(self._descriptor)
                self._descriptor = below
                here = f"{here.rstrip('/')}/{part}"
                parents.append(_parent(here, below))
        except OSError:
            os.close(self._descriptor)
            raise
        return self._descriptor, tuple(parents)

    def __exit__(self, *_details: object) -> None:
        os.close(self._descriptor)


def _parent(path: str, descriptor: int) -> Parent:
    found = os.fstat(descriptor)
    return Parent(path, found.st_uid, found.st_mode)


def entry_of(found: os.stat_result) -> Entry:
    """A stat result as an Entry."""
    return Entry(
        found.st_mode,
        found.st_ino,
        found.st_dev,
        found.st_nlink,
        found.st_uid,
        found.st_gid,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


@dataclass(frozen=True)
class SpillFolder:
    """A directory that may hold spilled data: itself, what is in it, and the way to it."""

    path: str
    entry: Entry
    files: tuple[tuple[str, Entry], ...]
    parents: tuple[Parent, ...]

    @property
    def newest(self) -> Optional[int]:
        """The newest mtime of its files, cut to whole seconds; None when it is empty."""
        return max((entry.mtime_ns // 1_000_000_000 for _name, entry in self.files), default=None)


def spill_folder(path: str) -> Optional[SpillFolder]:
    """The folder as it is now; None when it is gone or no directory. PermissionError when it is not ours."""
    try:
        with open_directory(path) as (descriptor, parents):
            entry = entry_of(os.fstat(descriptor))
            files = [
                (name, entry_of(os.stat(name, dir_fd=descriptor, follow_symlinks=False)))
                for name in sorted(os.listdir(descriptor))
            ]
    except PermissionError:
        raise
    except OSError:
        return None
    return SpillFolder(path, entry, tuple(files), parents[:-1])
