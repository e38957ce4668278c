"""Directories reached from "/" without following links, for what is judged and removed in them.

Other users may write in the folders on the way, so everything below is asked through descriptors.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

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


@contextmanager
def open_directory(path: str) -> Iterator[tuple[int, tuple[Parent, ...]]]:
    """Walk to a directory from "/", no link followed; gives its descriptor and all parents with it last.

    OSError where a part is missing, no directory, a link (ELOOP), or not ours to enter.
    """
    parts = [part for part in path.split("/") if part]
    descriptor = os.open("/", _WAY if parts else _DIRECTORY)
    try:
        status = os.fstat(descriptor)
        parents = [Parent("/", status.st_uid, status.st_mode)]
        for number, part in enumerate(parts, 1):
            here = "/" + "/".join(parts[:number])
            try:
                below = os.open(part, _DIRECTORY if number == len(parts) else _WAY, dir_fd=descriptor)
            except NotADirectoryError:
                # With O_DIRECTORY the kernel says ENOTDIR of a link too.
                if stat.S_ISLNK(os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), here) from None
                raise
            except OSError as error:
                raise OSError(error.errno, os.strerror(error.errno or 0), here) from None
            os.close(descriptor)
            descriptor = below
            status = os.fstat(descriptor)
            parents.append(Parent(here, status.st_uid, status.st_mode))
        yield descriptor, tuple(parents)
    finally:
        os.close(descriptor)


def files_in(descriptor: int, names: Iterable[str]) -> Iterator[tuple[str, Entry]]:
    """What these names are in an opened directory, links not followed."""
    for name in sorted(names):
        try:
            yield name, entry_of(os.stat(name, dir_fd=descriptor, follow_symlinks=False))
        except FileNotFoundError:
            continue  # removed since
