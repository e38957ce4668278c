"""A disk in memory: what is not put there does not exist."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Optional, Union

from npudoctor.core.frozen import dataclass
from npudoctor.host.fs.disk import CLOSED, LINK, NO_FILE, OpenFile
from npudoctor.host.fs.files import PathStatus, Space


@dataclass(frozen=True)
class FileNode:
    """A file of the disk in memory: content, link target, or a special kind, with its owner and mode.

    `held`: the bytes of disk that it takes.
    """

    content: bytes = b""
    kind: int = stat.S_IFREG
    permissions: int = 0o644
    uid: int = 0
    gid: int = 0
    target: str = ""
    error: int = 0
    mtime: float = 0.0
    nlink: int = 1
    held: int = 0


def link(target: str) -> FileNode:
    """A symbolic link."""
    return FileNode(kind=stat.S_IFLNK, permissions=0o777, target=target)


def device(permissions: int = 0o660, gid: int = 0) -> FileNode:
    """A character device node."""
    return FileNode(kind=stat.S_IFCHR, permissions=permissions, gid=gid)


def folder(permissions: int = 0o755, uid: int = 0) -> FileNode:
    """A directory, empty unless other paths lie below it."""
    return FileNode(kind=stat.S_IFDIR, permissions=permissions, uid=uid)


def unreadable(number: int = errno.EACCES) -> FileNode:
    """A path that exists, and raises this errno for every question."""
    return FileNode(error=number)


Content = Union[str, bytes, FileNode]

_FOLDER = folder()
# Larger contents are unlikely to be equal, and would stay in memory.
_SHORT = 4096
# Machines have hundreds of files alike, and nobody changes a node.
_file = lru_cache(maxsize=4096)(FileNode)


@lru_cache(maxsize=4096)
def _text_file(text: str) -> FileNode:
    return _file(_bytes_of(text))


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class MemoryDisk:
    """The Disk protocol over a mapping of absolute paths; parent folders exist by themselves.

    A file whose mode denies this user is not read: `euid` is in no group.
    """

    def __init__(self, files: Mapping[str, Content], euid: int = 0) -> None:
        self._euid = euid
        self._nodes: dict[str, FileNode] = {"/": _FOLDER}
        self._inodes = {"/": 2}
        self._names: dict[str, set[str]] = {}  # by folder
        self.spaces: dict[str, Space] = {}
        for path, content in files.items():
            self.put(path, content)

    def put(self, path: str, content: Content) -> None:
        """Add or replace a file, with its parents."""
        if isinstance(content, FileNode):
            node = content
        elif len(content) >= _SHORT:
            node = FileNode(content if isinstance(content, bytes) else _bytes_of(content))
        else:
            node = _file(content) if isinstance(content, bytes) else _text_file(content)
        self._nodes[path] = node
        inodes = self._inodes
        while path not in inodes:
            inodes[path] = len(inodes) + 2
            path, name = path.rsplit("/", 1)
            path = path or "/"
            names = self._names.get(path)
            if names is not None:
                names.add(name)
            else:
                self._names[path] = {name}
                self._nodes.setdefault(path, _FOLDER)

    def has(self, path: str) -> bool:
        """Return whether a path was given, readable or not."""
        return path in self._nodes

    def lstat(self, path: str) -> PathStatus:
        node = self._node(path)
        moment = int(node.mtime * 1e9)
        # 0xFE00: one device for all files, as a machine with one disk has it.
        return PathStatus(
            node.kind | node.permissions, self._inodes[path], 0xFE00, node.nlink, node.uid, node.gid,
            len(node.content), moment, moment, node.held or len(node.content),
        )  # fmt: skip

    def readlink(self, path: str) -> str:
        node = self._node(path)
        if not node.target:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return node.target

    def names(self, path: str, most: int = 0) -> list[str]:
        if not stat.S_ISDIR(self._node(path).kind):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return sorted(self._names.get(path if path == "/" else path.rstrip("/"), ()))[: most or None]

    def owners(self, path: str) -> list[tuple[str, int, int]]:
        nodes = ((name, self._node(f"{path.rstrip('/')}/{name}")) for name in self.names(path))
        return [(name, node.uid, node.kind | node.permissions) for name, node in nodes]

    def stamps(self, folder: str, names: Sequence[str]) -> tuple[list[int], list[int]]:
        paths = [f"{folder.rstrip('/')}/{name}" for name in names]
        nodes = map(self._nodes.get, paths)
        mtimes = [int(node.mtime) if node is not None and stat.S_ISREG(node.kind) else 0 for node in nodes]
        return [self._size(path) for path in paths], mtimes

    def _size(self, path: str) -> int:
        node = self._nodes.get(path)
        if node is None:
            return -1
        is_closed = self._euid and not node.permissions & (0o400 if node.uid == self._euid else 0o004)
        if node.error == errno.EACCES or (is_closed and node.kind == stat.S_IFREG):
            return CLOSED
        return {stat.S_IFREG: 0, stat.S_IFLNK: LINK}.get(node.kind, NO_FILE) or len(node.content)

    def read(self, path: str, limit: int, start: int = 0) -> bytes:
        node = self._node(path)
        # Root reads everything.
        if self._euid and not node.permissions & (0o400 if node.uid == self._euid else 0o004):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return node.content[start : start + limit]

    def parts(
        self, folder: str, names: Sequence[str], starts: Sequence[int], length: int
    ) -> list[Optional[bytes]]:
        return [
            self._part(f"{folder.rstrip('/')}/{name}", start, length) for name, start in zip(names, starts)
        ]

    def _part(self, path: str, start: int, length: int) -> Optional[bytes]:
        try:
            return b"" if self._node(path).target else self.read(path, length, start)
        except PermissionError:
            return None
        except OSError:
            return b""

    @contextmanager
    def open_file(self, path: str) -> Iterator[OpenFile]:
        """Its parts as the kernel gives them; nothing here has a hole."""
        moment = self.lstat(path).mtime_ns // 10**9
        yield OpenFile(lambda start, size: self.read(path, size, start), lambda start: None, moment)

    def may_block(self, path: str) -> bool:
        return False

    def may_access(self, path: str, mode: int) -> bool:
        """No node here has an access list that would allow more than its mode does."""
        return False

    def space(self, path: str) -> Space:
        """The space of the longest given path which contains this one; else plenty."""
        self._node(path)
        while path not in self.spaces and path != "/":
            path = path.rsplit("/", 1)[0] or "/"
        return self.spaces.get(path, Space(1 << 40, 1 << 39, 1 << 26, 1 << 25, 0xFE00))

    def close(self) -> None:
        """Nothing to end."""

    def _node(self, path: str) -> FileNode:
        node = self._nodes.get(path if path == "/" else path.rstrip("/"))
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if node.error:
            raise OSError(node.error, os.strerror(node.error), path)
        return node
