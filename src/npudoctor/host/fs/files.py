"""Reads files below "/" or below --root; links are resolved inside the root."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Optional, TypeVar, Union

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _, strerror
from npudoctor.host.fs.disk import Disk as Disk
from npudoctor.host.fs.disk import LocalDisk as LocalDisk
from npudoctor.host.fs.disk import OpenFile as OpenFile
from npudoctor.host.fs.disk import PathStatus as PathStatus
from npudoctor.host.fs.disk import Space as Space

MAX_LINKS = 40  # MAXSYMLINKS of linux/namei.h: with more in one path the kernel says ELOOP
READ_LIMIT = 4 << 20

T = TypeVar("T")
U = TypeVar("U")

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


# A resolved folder: its path without links ("" for the root), its status, the number of links followed, and
# every part on the way. A plain tuple: typing.NamedTuple compiles its hints, which `list` needs for nothing
# else and which would slow its start.
_Folder = tuple[str, Optional[PathStatus], int, tuple[tuple[str, PathStatus], ...]]


class Files:
    """Files as the examined machine sees them; paths are absolute, links are resolved inside the root.

    For a missing path the answer is None or empty; for one that cannot be read CannotTell is raised. The
    status of a path is read once and kept.
    """

    def __init__(self, disk: Disk, root: str = "/") -> None:
        self.disk = disk
        self.root = root
        self._entry_by_path: dict[str, Optional[PathStatus]] = {}
        self._folder_by_path: dict[str, _Folder] = {}
        self._resolved_by_path: dict[str, tuple[str, Optional[PathStatus]]] = {}  # links followed
        self._base = "" if root == "/" else root

    def lstat(self, path: str) -> Optional[PathStatus]:
        """The status of a path, of a link itself if it is one; None if it is missing."""
        return self._resolve_parts(path, follow=False)[1]

    def stat(self, path: str) -> Optional[PathStatus]:
        """The status of what a path leads to; None if it is missing or a dangling link."""
        return self._resolve(path)[1]

    def real(self, path: str) -> Optional[str]:
        """The path without links, as seen inside the root; None if it is missing."""
        real, entry = self._resolve(path)
        return real if entry else None

    def disk_path(self, real: str) -> str:
        """The path by which this process reaches a path without links: below --root."""
        return (self._base + real) if real != "/" else self.root

    def may_block(self, real: str) -> bool:
        """Whether a path without links lies on a mount that may block."""
        return self.disk.may_block(self.disk_path(real))

    def why_remote(self, path: str) -> Optional[str]:
        """Why we must not open a path ourselves, as a sentence; None if we may."""
        try:
            real = self.real(path)
        except CannotTell as error:
            return error.reason
        if real is not None and self.may_block(real):
            return _("{path} is on a file system that may hang", path=path)
        return None

    def space(self, path: str) -> Optional[Space]:
        """Space on the file system that holds a path; None if the path is missing."""
        real = self.real(path)
        if real is None:
            return None
        return _ask_unless_absent(path, lambda: self.disk.space(self.disk_path(real)), None)

    def names(self, path: str, most: int = 0) -> list[str]:
        """The sorted names in a directory; empty if it is missing or not a directory.

        `most`: read at most so many, in the order of the disk, as a directory may hold millions; 0 for all.
        """
        real, entry = self._resolve(path)
        if entry is None or not entry.is_dir:
            return []
        return _ask_unless_absent(path, lambda: sorted(self.disk.names(self.disk_path(real), most)), [])

    def sizes(self, folder: str, names: Sequence[str]) -> list[int]:
        """The sizes of files below a folder by relative path; -1, NO_FILE, LINK and CLOSED as of LocalDisk.

        One lstat for each and nothing kept: for the ten thousand files of a package.
        """
        return self.stamps(folder, names)[0]

    def stamps(self, folder: str, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """The same sizes, and when each file was written, in whole seconds; 0 where it is no file."""
        real, entry = self._resolve_parts(folder, follow=True)
        if entry is None or not entry.is_dir:
            return [-1] * len(names), [0] * len(names)
        try:
            return self.disk.stamps(self.disk_path(real), names)
        except OSError as error:
            raise _cannot_read(folder, error) from error

    def read(self, path: str, limit: int = READ_LIMIT, start: int = 0) -> Optional[bytes]:
        """At most `limit` bytes of a regular file from `start` on; None if it is missing.

        CannotTell also if the path is not a regular file.
        """
        real, entry = self._resolve(path)
        if entry is None:
            return None
        if not entry.is_file:
            raise CannotTell(_("{path} is not a regular file", path=path))
        return _ask_unless_absent(path, lambda: self.disk.read(self.disk_path(real), limit, start), None)

    def parts(
        self, folder: str, names: Sequence[str], starts: Sequence[int], length: int
    ) -> list[Optional[bytes]]:
        """`length` bytes of each file below a folder from its start on, by relative path.

        b"" for one that is missing or lies on a mount that may block, None for one that this user may not
        read.
        """
        real, entry = self._resolve_parts(folder, follow=True)
        if entry is None or not entry.is_dir:
            return [b""] * len(names)
        try:
            return self.disk.parts(self.disk_path(real), names, starts, length)
        except OSError as error:
            raise _cannot_read(folder, error) from error

    @contextmanager
    def open_file(self, path: str) -> Iterator[OpenFile]:
        """Open a regular file of which many small parts are read; FileNotFoundError if it is missing."""
        real, entry = self._resolve(path)
        if entry is not None and not entry.is_file:
            raise CannotTell(_("{path} is not a regular file", path=path))
        try:
            with self.disk.open_file(self.disk_path(real)) as file:
                yield file
        except OSError as error:
            if error.errno in _ABSENT:
                raise
            raise _cannot_read(path, error) from error

    def text(self, path: str, limit: int = READ_LIMIT) -> Optional[str]:
        """The content of a file as `read` returns it, as text; bytes that are not UTF-8 become surrogates."""
        content = self.read(path, limit)
        return None if content is None else content.decode("utf-8", "surrogateescape")

    def entries_on_path(self, path: str) -> list[PathStatus]:
        """The status of every folder and link on the way to a path, and of the path; empty if missing."""
        return [entry for _path, entry in self.steps(path)]

    def steps(self, path: str) -> list[tuple[str, PathStatus]]:
        """As entries_on_path, each with its path, whose folders are free of links."""
        passed: list[tuple[str, PathStatus]] = []
        root, entry = self._cached_lstat("/"), self._resolve_parts(path, follow=True, passed=passed)[1]
        return [("/", root), *passed] if root and entry else []

    def find_missing_part(self, link: str) -> tuple[Optional[str], list[tuple[str, PathStatus]]]:
        """The first path on the way of a dangling link at which nothing is, and the steps up to there.

        The path is free of links; None for a loop, and if nothing is missing.
        """
        steps: list[tuple[str, PathStatus]] = []
        path, entry = self._resolve_parts(link, follow=True, passed=steps)
        return path if entry is None and self._cached_lstat(path) is None else None, steps

    def owners(self, path: str) -> list[tuple[str, int, int]]:
        """Name, uid and mode of each entry of a directory; empty if it is missing or not a directory."""
        real, entry = self._resolve(path)
        if entry is None or not entry.is_dir:
            return []
        return _ask_unless_absent(path, lambda: self.disk.owners(self.disk_path(real)), [])

    def _resolve(self, path: str) -> tuple[str, Optional[PathStatus]]:
        """Where a path leads, links followed; kept, as many checks ask about the same paths."""
        end = self._resolved_by_path.get(path)
        if end is None:
            end = self._resolved_by_path[path] = self._resolve_parts(path, follow=True)
        return end

    def _resolve_parts(
        self, path: str, follow: bool, passed: Optional[list[tuple[str, PathStatus]]] = None
    ) -> tuple[str, Optional[PathStatus]]:
        """Resolve a path part by part; the path without links, and the status of what is there.

        One part at a time, so that a mount that may block is noticed before it is touched and no link leads
        out of the root. `follow`: also a link at the end. Every part on the way is added to `passed`.
        """
        passed = [] if passed is None else passed
        if not path.startswith("/"):
            raise ValueError(f"not an absolute path: {path!r}")
        folder, _slash, last = path.rpartition("/")
        # From the nearest folder above that was resolved before: what imports look for is mostly missing.
        known = folder
        while last and known and known not in self._folder_by_path:
            known = known.rpartition("/")[0]
        cached_folder, is_new = self._folder_by_path.get(known), known != folder
        if cached_folder is None:
            cached_folder, is_new, known = ("", self._cached_lstat("/"), 0, ()), True, ""
        resolved, entry, links, earlier_parts = cached_folder
        passed.extend(earlier_parts)
        remaining_parts = deque(path[len(known) + 1 :].split("/") if is_new else (last,))
        while remaining_parts:
            if is_new and len(remaining_parts) == 1:
                # Kept: the next path in this folder need not be resolved from the root again.
                if entry is not None and entry.is_dir:
                    self._folder_by_path[folder] = (resolved, entry, links, tuple(passed))
                is_new = False
            part = remaining_parts.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                if entry is None or not entry.is_dir:
                    return resolved or "/", None  # the kernel says ENOTDIR for "file/.."
                resolved = resolved.rpartition("/")[0]
                entry = self._cached_lstat(resolved or "/")
                continue
            part_path = f"{resolved}/{part}"
            entry = self._cached_lstat(part_path)
            if entry is None:
                return part_path, None
            passed.append((part_path, entry))
            if entry.is_link and (follow or any(remaining_parts)):
                links += 1
                if links > MAX_LINKS:
                    return part_path, None  # a loop counts as a dangling link: no job gets through it
                try:
                    target = self.disk.readlink(self.disk_path(part_path))
                except OSError as error:
                    raise _cannot_read(part_path, error) from error
                # Put the target of a link before what is left; the parts from which it goes on.
                remaining_parts.extendleft(reversed(target.split("/")))
                resolved = "" if target.startswith("/") else resolved
                entry = self._cached_lstat(resolved or "/")  # the target may add nothing: "/" or "."
            else:
                resolved = part_path
        return resolved or "/", entry

    def _cached_lstat(self, path: str) -> Optional[PathStatus]:
        try:
            return self._entry_by_path[path]
        except KeyError:
            pass
        try:
            entry = self.disk.lstat(self.disk_path(path))
        except ValueError:
            entry = None  # a name that no file can have: with a NUL, or not encodable
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _cannot_read(path, error) from error
            entry = None
        self._entry_by_path[path] = entry
        return entry


def _ask_unless_absent(path: str, ask: Callable[[], T], absent: U) -> Union[T, U]:
    """What `ask` returns; `absent` if the path has vanished meanwhile; CannotTell for all other errors."""
    try:
        return ask()
    except OSError as error:
        if error.errno in _ABSENT:
            return absent
        raise _cannot_read(path, error) from error


def _cannot_read(path: str, error: OSError) -> CannotTell:
    why = strerror(error.errno) if error.errno else str(error)
    return CannotTell(_("{path} cannot be read: {why}", path=path, why=why))
