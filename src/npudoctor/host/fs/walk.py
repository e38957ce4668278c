"""Opens directories from "/" without following links, to judge and remove what is in them.

Other users may write in the folders on the way and swap them for links. So each part is opened relative to
the descriptor of the one before, and everything below is asked through descriptors.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from npudoctor.core.frozen import dataclass
from npudoctor.host.fs.disk import PathStatus, entry_from_stat

# A folder may be searchable but not readable (mode 711): those on the way are opened with O_PATH.
_PATH_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Parent:
    """A directory on the way to a candidate for removal: its path, owner and mode."""

    path: str
    uid: int
    mode: int

    @property
    def is_writable_by_others(self) -> bool:
        """Whether group or others may replace entries in it: no sticky bit protects them."""
        # 0o022: writable by the group or by others.
        return bool(self.mode & 0o022) and not self.mode & stat.S_ISVTX


@contextmanager
def open_directory(path: str) -> Iterator[tuple[int, tuple[Parent, ...]]]:
    """Open a directory part by part from "/"; its descriptor, and all directories on the way with it last.

    OSError if a part is missing, not a directory, a link (ELOOP), or may not be entered.
    """
    parts = [part for part in path.split("/") if part]
    descriptor = os.open("/", _PATH_FLAGS if parts else _DIRECTORY_FLAGS)
    try:
        status = os.fstat(descriptor)
        parents = [Parent("/", status.st_uid, status.st_mode)]
        for number, part in enumerate(parts, 1):
            part_path = "/" + "/".join(parts[:number])
            try:
                child_descriptor = os.open(
                    part, _DIRECTORY_FLAGS if number == len(parts) else _PATH_FLAGS, dir_fd=descriptor
                )
            except NotADirectoryError:
                # With O_DIRECTORY the kernel says ENOTDIR of a link too.
                if stat.S_ISLNK(os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part_path) from None
                raise
            except OSError as error:
                raise OSError(error.errno, os.strerror(error.errno or 0), part_path) from None
            os.close(descriptor)
            descriptor = child_descriptor
            status = os.fstat(descriptor)
            parents.append(Parent(part_path, status.st_uid, status.st_mode))
        yield descriptor, tuple(parents)
    finally:
        os.close(descriptor)


def stat_entries(descriptor: int, names: Iterable[str]) -> Iterator[tuple[str, PathStatus]]:
    """Yield the status of each name in an open directory, links not followed; missing ones are skipped."""
    for name in sorted(names):
        try:
            yield name, entry_from_stat(os.stat(name, dir_fd=descriptor, follow_symlinks=False))
        except FileNotFoundError:
            continue  # removed since
