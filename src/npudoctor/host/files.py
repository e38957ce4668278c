"""Reads files, below "/" or below --root: links are resolved inside it, nothing can make it hang."""

from __future__ import annotations

import errno
from collections import deque
from typing import Optional

from npudoctor.host.disk import Disk as Disk
from npudoctor.host.disk import Entry as Entry
from npudoctor.host.disk import LocalDisk as LocalDisk
from npudoctor.host.disk import Space as Space
from npudoctor.host.errors import CannotTell
from npudoctor.messages import _, strerror

LINKS = 40  # as the kernel: more in one path is a loop
READ_LIMIT = 4 << 20

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class Files:
    """Files as the examined machine sees them: absolute paths in, links resolved inside the root.

    What is missing is None or empty; what exists and cannot be read raises CannotTell.
    """

    def __init__(self, disk: Disk, root: str = "/") -> None:
        self.disk = disk
        self.root = root
        self._entries: dict[str, Optional[Entry]] = {}
        self._base = "" if root == "/" else root

    def lstat(self, path: str) -> Optional[Entry]:
        """What the path names, links not followed at its end; None when it is missing."""
        return self._walk(path, follow=False)[1]

    def stat(self, path: str) -> Optional[Entry]:
        """What the path names in the end; None when it is missing or a dangling link."""
        return self._walk(path, follow=True)[1]

    def real(self, path: str) -> Optional[str]:
        """The path without links, as seen inside the root; None when it is missing."""
        found, entry = self._walk(path, follow=True)
        return found if entry else None

    def on_disk(self, real: str) -> str:
        """Where a path without links lies as this process sees it: below the root."""
        return (self._base + real) if real != "/" else self.root

    def may_block(self, real: str) -> bool:
        """Whether a path without links lies on a mount that may block."""
        return self.disk.may_block(self.on_disk(real))

    def space(self, path: str) -> Optional[Space]:
        """The file system that holds what a path names; None when that is missing."""
        real = self.real(path)
        if real is None:
            return None
        try:
            return self.disk.space(self.on_disk(real))
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise _unreadable(path, error) from error

    def names(self, path: str, most: int = 0) -> list[str]:
        """The sorted names in a directory; empty when it is missing or no directory.

        With `most`, only so many are read, in the order of the disk: a directory may hold millions.
        """
        real, entry = self._walk(path, follow=True)
        if entry is None or not entry.is_dir:
            return []
        try:
            return sorted(self.disk.names(self.on_disk(real), most))
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            raise _unreadable(path, error) from error

    def read(self, path: str, limit: int = READ_LIMIT, start: int = 0) -> Optional[bytes]:
        """The first `limit` bytes of a regular file, from `start` on; None when it is missing."""
        real, entry = self._walk(path, follow=True)
        if entry is None:
            return None
        if not entry.is_file:
            raise CannotTell(_("{path} is not a regular file").format(path=path))
        try:
            return self.disk.read(self.on_disk(real), limit, start)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise _unreadable(path, error) from error

    def text(self, path: str, limit: int = READ_LIMIT) -> Optional[str]:
        """The same as text; bytes that are not UTF-8 are kept as surrogates."""
        content = self.read(path, limit)
        return None if content is None else content.decode("utf-8", "surrogateescape")

    def way(self, path: str) -> list[Entry]:
        """Everything that decides what a path names: each folder and link on the way, and the end.

        Empty when the path is missing.
        """
        passed: list[Entry] = []
        root, found = self._entry("/"), self._walk(path, follow=True, passed=passed)[1]
        return [root, *passed] if root and found else []

    def _walk(
        self, path: str, follow: bool, passed: Optional[list[Entry]] = None
    ) -> tuple[str, Optional[Entry]]:
        """Resolve a path part by part, so that no blocking mount is touched unawares and no link
        leads out of the root; the path without links, and what is there. `passed` gets every part."""
        passed = [] if passed is None else passed
        if not path.startswith("/"):
            raise ValueError(f"not an absolute path: {path!r}")
        todo: deque[str] = deque(path.split("/"))
        done: list[str] = []
        entry = self._entry("/")
        links = 0
        while todo:
            part = todo.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                if entry is None or not entry.is_dir:
                    return _joined(done), None  # as the kernel: there is no way through a file
                del done[-1:]
                entry = self._entry(_joined(done))
                continue
            here = _joined([*done, part])
            entry = self._entry(here)
            if entry is None:
                return here, None
            passed.append(entry)
            if entry.is_link and (follow or any(todo)):
                links += 1
                if links > LINKS:
                    return here, None  # a loop names nothing, as a dangling link: no job gets through
                target = self._target(here)
                if target.startswith("/"):
                    done = []
                todo.extendleft(reversed(target.split("/")))
                entry = self._entry(_joined(done))  # the target may add nothing: "/" or "."
            else:
                done.append(part)
        return _joined(done), entry

    def _entry(self, here: str) -> Optional[Entry]:
        if here not in self._entries:
            try:
                self._entries[here] = self.disk.lstat(self.on_disk(here))
            except ValueError:
                self._entries[here] = None  # a name that no file can have: a NUL in it, or no bytes for it
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise _unreadable(here, error) from error
                self._entries[here] = None
        return self._entries[here]

    def _target(self, here: str) -> str:
        try:
            return self.disk.readlink(self.on_disk(here))
        except OSError as error:
            raise _unreadable(here, error) from error


def _joined(parts: list[str]) -> str:
    return "/" + "/".join(parts)


def _unreadable(path: str, error: OSError) -> CannotTell:
    why = strerror(error.errno) if error.errno else str(error)
    return CannotTell(_("{path} cannot be read: {why}").format(path=path, why=why))
