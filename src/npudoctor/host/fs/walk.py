"""Directories reached from "/" without following links, for what is judged and removed in them.

Other users may write in the folders on the way, so everything below is asked through descriptors.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator

from npudoctor.core.frozen import dataclass
from npudoctor.host.fs.disk import Entry, entry_of

# Who may pass a folder need not be able to list it: those on the way are opened by O_PATH.
_WAY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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


class open_directory:  # noqa: N801  (used like open)
    """Walk to a directory from "/", no link followed; gives its descriptor and all parents with it last.

    OSError where a part is missing, no directory, a link (ELOOP), or not ours to enter.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> tuple[int, tuple[Parent, ...]]:
        parts = [part for part in self._path.split("/") if part]
        self._descriptor = os.open("/", _WAY if parts else _DIRECTORY)
        parents = [_parent("/", self._descriptor)]
        try:
            for index, part in enumerate(parts):
                here = "/" + "/".join(parts[: index + 1])
                below = _below(self._descriptor, part, here, last=index + 1 == len(parts))
                os.close(self._descriptor)
                self._descriptor = below
                parents.append(_parent(here, below))
        except BaseException:
            os.close(self._descriptor)
            raise
        return self._descriptor, tuple(parents)

    def __exit__(self, *_details: object) -> None:
        os.close(self._descriptor)


def _below(descriptor: int, name: str, path: str, last: bool) -> int:
    try:
        return os.open(name, _DIRECTORY if last else _WAY, dir_fd=descriptor)
    except NotADirectoryError:
        # With O_DIRECTORY the kernel says ENOTDIR of a link too.
        if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
        raise
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from None


def _parent(path: str, descriptor: int) -> Parent:
    status = os.fstat(descriptor)
    return Parent(path, status.st_uid, status.st_mode)


def files_in(descriptor: int, names: Iterable[str]) -> Iterator[tuple[str, Entry]]:
    """What these names are in an opened directory, links not followed."""
    for name in sorted(names):
        try:
            yield name, entry_of(os.stat(name, dir_fd=descriptor, follow_symlinks=False))
        except FileNotFoundError:
            continue  # removed since
