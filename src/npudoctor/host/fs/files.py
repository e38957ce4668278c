"""Reads files, below "/" or below --root: links are resolved inside it, nothing can make it hang."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Optional, TypeVar, Union

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _, strerror
from npudoctor.host.fs.disk import Disk as Disk
from npudoctor.host.fs.disk import Entry as Entry
from npudoctor.host.fs.disk import LocalDisk as LocalDisk
from npudoctor.host.fs.disk import Opened as Opened
from npudoctor.host.fs.disk import Space as Space

LINKS = 40  # as the kernel: more in one path is a loop
READ_LIMIT = 4 << 20

T = TypeVar("T")
U = TypeVar("U")

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


# How far a path was resolved: the path without links ("" for the root), what is there, the links that were
# followed, and every part that was passed. For the hints of a named tuple Python's compiler would be set up,
# which `list` has no other use for.
_Folder = tuple[str, Optional[Entry], int, tuple[tuple[str, Entry], ...]]


class Files:
    """Files as the examined machine sees them: absolute paths in, links resolved inside the root.

    What is missing is None or empty; what exists and cannot be read raises CannotTell.
    """

    def __init__(self, disk: Disk, root: str = "/") -> None:
        self.disk = disk
        self.root = root
        self._entries: dict[str, Optional[Entry]] = {}
        self._folders: dict[str, _Folder] = {}
        self._walked: dict[str, tuple[str, Optional[Entry]]] = {}  # links followed
        self._base = "" if root == "/" else root

    def lstat(self, path: str) -> Optional[Entry]:
        """What the path names, links not followed at its end; None when it is missing."""
        return self._walk(path, follow=False)[1]

    def stat(self, path: str) -> Optional[Entry]:
        """What the path names in the end; None when it is missing or a dangling link."""
        return self._end(path)[1]

    def real(self, path: str) -> Optional[str]:
        """The path without links, as seen inside the root; None when it is missing."""
        real, entry = self._end(path)
        return real if entry else None

    def on_disk(self, real: str) -> str:
        """Where a path without links lies as this process sees it: below the root."""
        return (self._base + real) if real != "/" else self.root

    def may_block(self, real: str) -> bool:
        """Whether a path without links lies on a mount that may block."""
        return self.disk.may_block(self.on_disk(real))

    def why_remote(self, path: str) -> Optional[str]:
        """Why a path is not opened by ourselves; None where it is."""
        try:
            real = self.real(path)
        except CannotTell as error:
            return error.reason
        if real is not None and self.may_block(real):
            return _("{path} is on a file system that may hang", path=path)
        return None

    def space(self, path: str) -> Optional[Space]:
        """The file system that holds what a path names; None when that is missing."""
        real = self.real(path)
        if real is None:
            return None
        return _unless_absent(path, lambda: self.disk.space(self.on_disk(real)), None)

    def names(self, path: str, most: int = 0) -> list[str]:
        """The sorted names in a directory; empty when it is missing or no directory.

        With `most`, only so many are read, in the order of the disk: a directory may hold millions.
        """
        real, entry = self._end(path)
        if entry is None or not entry.is_dir:
            return []
        return _unless_absent(path, lambda: sorted(self.disk.names(self.on_disk(real), most)), [])

    def sizes(self, folder: str, names: Sequence[str]) -> list[int]:
        """Of many files below a folder, by relative path, their sizes; -1: missing, NO_FILE: no regular file,
        LINK: a link, not followed, CLOSED: in a folder that this user may not enter. A stat each and nothing
        kept, for lists of ten thousand files.
        """
        real, entry = self._walk(folder, follow=True)
        if entry is None or not entry.is_dir:
            return [-1] * len(names)
        try:
            return self.disk.sizes(self.on_disk(real), names)
        except OSError as error:
            raise _unreadable(folder, error) from error

    def read(self, path: str, limit: int = READ_LIMIT, start: int = 0) -> Optional[bytes]:
        """The first `limit` bytes of a regular file, from `start` on; None when it is missing."""
        real, entry = self._end(path)
        if entry is None:
            return None
        if not entry.is_file:
            raise CannotTell(_("{path} is not a regular file", path=path))
        return _unless_absent(path, lambda: self.disk.read(self.on_disk(real), limit, start), None)

    def parts(
        self, folder: str, names: Sequence[str], starts: Sequence[int], length: int
    ) -> list[Optional[bytes]]:
        """Of many files below a folder, by relative path, some bytes; none of what is not read so, None of
        what this user may not read."""
        real, entry = self._walk(folder, follow=True)
        if entry is None or not entry.is_dir:
            return [b""] * len(names)
        try:
            return self.disk.parts(self.on_disk(real), names, starts, length)
        except OSError as error:
            raise _unreadable(folder, error) from error

    @contextmanager
    def opened(self, path: str) -> Iterator[Opened]:
        """A regular file of which many small parts are read; FileNotFoundError when it is missing."""
        real, entry = self._end(path)
        if entry is not None and not entry.is_file:
            raise CannotTell(_("{path} is not a regular file", path=path))
        try:
            with self.disk.opened(self.on_disk(real)) as file:
                yield file
        except OSError as error:
            if error.errno in _ABSENT:
                raise
            raise _unreadable(path, error) from error

    def text(self, path: str, limit: int = READ_LIMIT) -> Optional[str]:
        """The same as text; bytes that are not UTF-8 are kept as surrogates."""
        content = self.read(path, limit)
        return None if content is None else content.decode("utf-8", "surrogateescape")

    def way(self, path: str) -> list[Entry]:
        """Everything that decides what a path names: each folder and link on the way, and the end.

        Empty when the path is missing.
        """
        return [entry for _path, entry in self.steps(path)]

    def steps(self, path: str) -> list[tuple[str, Entry]]:
        """The same, each with its own path, of which the folders are free of links."""
        passed: list[tuple[str, Entry]] = []
        root, entry = self._entry("/"), self._walk(path, follow=True, passed=passed)[1]
        return [("/", root), *passed] if root and entry else []

    def missing(self, link: str) -> tuple[Optional[str], list[tuple[str, Entry]]]:
        """What a dangling link lacks: the first path on its way, free of links, at which nothing is, and the
        steps to there. None in its place for a loop, and where nothing is missing."""
        steps: list[tuple[str, Entry]] = []
        path, entry = self._walk(link, follow=True, passed=steps)
        return path if entry is None and self._entry(path) is None else None, steps

    def owners(self, path: str) -> list[tuple[str, int, int]]:
        """Name, uid and mode of each entry of a directory; empty when it is missing or no directory."""
        real, entry = self._end(path)
        if entry is None or not entry.is_dir:
            return []
        return _unless_absent(path, lambda: self.disk.owners(self.on_disk(real)), [])

    def _end(self, path: str) -> tuple[str, Optional[Entry]]:
        """Where a path leads, links followed: many checks ask about the same ones."""
        end = self._walked.get(path)
        if end is None:
            end = self._walked[path] = self._walk(path, follow=True)
        return end

    def _walk(
        self, path: str, follow: bool, passed: Optional[list[tuple[str, Entry]]] = None
    ) -> tuple[str, Optional[Entry]]:
        """Resolve a path part by part, so that no blocking mount is touched unawares and no link
        leads out of the root; the path without links, and what is there. `passed` gets every part."""
        passed = [] if passed is None else passed
        if not path.startswith("/"):
            raise ValueError(f"not an absolute path: {path!r}")
        folder, _slash, last = path.rpartition("/")
        known = self._folders.get(folder)
        todo, is_new = deque(path.split("/") if known is None else (last,)), known is None
        at, entry, links, before = known or ("", self._entry("/"), 0, ())
        passed.extend(before)
        while todo:
            if is_new and len(todo) == 1:
                # The way to a folder holds for all that is asked about in it, as each entry does.
                if entry is not None and entry.is_dir:
                    self._folders[folder] = (at, entry, links, tuple(passed))
                is_new = False
            part = todo.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                if entry is None or not entry.is_dir:
                    return at or "/", None  # as the kernel: there is no way through a file
                at = at.rpartition("/")[0]
                entry = self._entry(at or "/")
                continue
            here = f"{at}/{part}"
            entry = self._entry(here)
            if entry is None:
                return here, None
            passed.append((here, entry))
            if entry.is_link and (follow or any(todo)):
                links += 1
                if links > LINKS:
                    return here, None  # a loop names nothing, as a dangling link: no job gets through
                try:
                    target = self.disk.readlink(self.on_disk(here))
                except OSError as error:
                    raise _unreadable(here, error) from error
                # Put the target of a link before what is left; the parts from which it goes on.
                todo.extendleft(reversed(target.split("/")))
                at = "" if target.startswith("/") else at
                entry = self._entry(at or "/")  # the target may add nothing: "/" or "."
            else:
                at = here
        return at or "/", entry

    def _entry(self, here: str) -> Optional[Entry]:
        try:
            return self._entries[here]
        except KeyError:
            pass
        try:
            entry = self.disk.lstat(self.on_disk(here))
        except ValueError:
            entry = None  # a name that no file can have: a NUL in it, or no bytes for it
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _unreadable(here, error) from error
            entry = None
        self._entries[here] = entry
        return entry


def _unless_absent(path: str, ask: Callable[[], T], absent: U) -> Union[T, U]:
    """What the disk answers; `absent` where nothing is there any more; CannotTell for all other errors."""
    try:
        return ask()
    except OSError as error:
        if error.errno in _ABSENT:
            return absent
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> CannotTell:
    why = strerror(error.errno) if error.errno else str(error)
    return CannotTell(_("{path} cannot be read: {why}", path=path, why=why))
