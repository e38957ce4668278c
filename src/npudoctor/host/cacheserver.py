"""Where MindSpore's dataset cache server leaves things: sockets, logs, spill folders. Facts only, no verdict.

What is judged for removal is reached through directory descriptors opened without following links
(host/walk.py); see proof/ for the rules.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host.files import Entry
from npudoctor.host.walk import Parent, entry_of, files_in, open_directory
from npudoctor.messages import _, strerror

PROGRAMS = ("dataset-cache-server", "cache_server")
SOCKET = re.compile(r"cache_server_p([0-9]{1,5})\Z")
# What our own removal renames a socket to before it unlinks it; see fixing/removal.py.
PARKED = re.compile(r"\.(cache_server_p[0-9]{1,5})\.npudoctor\.[0-9a-f]+\Z")
LOG = re.compile(r"(mindspore|dataset-cache-server|cache_server)\..*\.log\.[A-Z]+\.[0-9-]+\.([0-9]{1,10})\Z")
SPILL = re.compile(r"[a-z0-9]{36}\Z")
CONTAINER = re.compile(r"IMG[0-9]{5}\.LB\Z")


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
        if name != "cache" and not SOCKET.match(_original(name)):
            yield f"{tmp}/mindspore/{name}", False


@dataclass(frozen=True)
class Found:
    """The candidates at all places; `hidden` are folders that we have no right to look into, `unseen` those
    that could not be looked into for another reason, which is told."""

    sockets: tuple[SocketFile, ...]
    hidden: tuple[str, ...] = ()
    unseen: tuple[tuple[str, str], ...] = ()


def socket_files(tmp: str = "/tmp") -> Found:  # noqa: S108
    """The candidates at all places, and where we could not look."""
    found: list[SocketFile] = []
    hidden: list[str] = []
    unseen: dict[str, str] = {}
    for directory, old in places(tmp):
        try:
            with open_directory(directory) as (descriptor, parents):
                found += _candidates(descriptor, directory, old, parents)
        except PermissionError:
            hidden.append(directory)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            link = error.errno == errno.ELOOP
            unseen[str(error.filename or directory)] = (
                _("it is a link, and links are not followed") if link else strerror(error.errno)
            )
    return Found(tuple(found), tuple(hidden), tuple(unseen.items()))


def _candidates(
    descriptor: int, directory: str, old: bool, parents: tuple[Parent, ...]
) -> Iterator[SocketFile]:
    names = {name: SOCKET.match(_original(name)) for name in os.listdir(descriptor)}
    ports = {name: int(match.group(1)) for name, match in names.items() if match}
    for name, entry in files_in(descriptor, ports):
        yield SocketFile(directory, name, ports[name], old, entry, parents, _original(name) != name)


def _original(name: str) -> str:
    parked = PARKED.match(name)
    return parked.group(1) if parked else name


def _names(path: str) -> list[str]:
    try:
        with open_directory(path) as (descriptor, _parents):
            return sorted(os.listdir(descriptor))
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

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(entry.size for _name, entry in self.files)

    @property
    def plain(self) -> bool:
        """Whether it holds nothing but what a cache server puts there, all its owner's."""
        return all(
            CONTAINER.match(name) and file.is_file and file.nlink == 1 and file.uid == self.entry.uid
            for name, file in self.files
        )


def spill_folder(path: str) -> Optional[SpillFolder]:
    """The folder as it is now; None when it is gone or no directory. OSError for a link (ELOOP), or when it
    is not ours to look into."""
    try:
        with open_directory(path) as (descriptor, parents):
            entry = entry_of(os.fstat(descriptor))
            files = tuple(files_in(descriptor, os.listdir(descriptor)))
            return SpillFolder(path, entry, files, parents[:-1])
    except (FileNotFoundError, NotADirectoryError):
        return None
