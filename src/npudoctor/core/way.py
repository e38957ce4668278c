"""The only place where files and folders are made or replaced: every step of the way by descriptor, from "/".

A path that was looked at is not the path that is written to: whoever may write in a folder on the way can put
a link there in between. So a path is walked once, each part opened from the one before, without the kernel
following links; which links are followed is decided here. What is done then is done in the folder that is
held open, and in a folder of another user with that user's rights, never with root's.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Callable, Optional

from npudoctor.core.messages import _, strerror
from npudoctor.core.trust.rule import why_not_entry

LINKS = 40  # as many as the kernel follows
READER = 5.0  # seconds that a pipe may be without a reader
# O_PATH with O_NOFOLLOW opens a link itself, and needs no right to read the folder.
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_EXCL: a name that is taken, be it by a link, is an error.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a FIFO without a reader fails at once; O_NOCTTY: a terminal does not become ours.
_STREAM = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafePath(OSError):
    """Another user may have put something on the way to a path; the text says what."""

    def __init__(self, text: str) -> None:
        super().__init__(text)


def reason_of(error: OSError) -> str:
    """The reason in an error of this module, as the end of a sentence."""
    return str(error) if isinstance(error, UnsafePath) else strerror(error.errno)


class PathWalk:
    """Walks paths by descriptors: `here` is an O_PATH descriptor of where it is. Ended by `close`."""

    def __init__(self, start: Optional[int] = None) -> None:
        self.here = os.open("/", _STEP) if start is None else os.dup(start)
        self.links = 0

    def close(self) -> None:
        os.close(self.here)

    def go(self, path: str, whole_path: str = "") -> None:
        """Walk on along a path; an absolute one begins at "/". UnsafePath at a link that must not be
        followed.

        `whole_path`: what the message names, where `path` is only a part of it.
        """
        todo = path.split("/")[::-1]
        if path.startswith("/"):
            self._enter(os.open("/", _STEP))
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            below = os.open(part, _STEP, dir_fd=self.here)
            status = os.fstat(below)
            if not stat.S_ISLNK(status.st_mode):
                self._enter(below)
                continue
            try:
                self._expect_followed(status, whole_path or path)
                target = os.readlink("", dir_fd=below)  # of this very link, whatever stands there now
            finally:
                os.close(below)
            if target.startswith("/"):
                self._enter(os.open("/", _STEP))
            todo += target.split("/")[::-1]

    def _enter(self, below: int) -> None:
        os.close(self.here)
        self.here = below

    def _expect_followed(self, link: os.stat_result, path: str) -> None:
        """Raise UnsafePath at a link that must not be followed.

        Root follows links of root, where nobody else can move them. Others follow all but a foreign user's in
        a folder that everybody may write to, as fs.protected_symlinks of the kernel does.
        """
        self.links += 1
        if self.links > LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        euid, folder = os.geteuid(), os.fstat(self.here)
        shared = bool(folder.st_mode & 0o022)
        sticky = bool(folder.st_mode & stat.S_ISVTX)
        foreign = link.st_uid not in (0, euid)
        # As an ordinary user only our own files are at stake.
        if euid:
            refused = foreign and shared and sticky
        else:
            others_write = folder.st_mode & 0o002 or (folder.st_mode & 0o020 and folder.st_gid != 0)
            refused = foreign or folder.st_uid != 0 or bool(others_write and not sticky)
        if refused:
            raise UnsafePath(_("{path} goes through a symbolic link that another user controls", path=path))


@contextmanager
def folder_of(path: str) -> Iterator[tuple[int, str]]:
    """Open the folder of an absolute path; yield its descriptor and the name in it. Within the block, root
    has the rights of the folder's owner.
    """
    directory, _slash, name = path.rpartition("/")
    # A path that ends so has no name that could be written.
    if not path.startswith("/") or name in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    walk = PathWalk()
    try:
        walk.go(directory or "/", path)
        status = os.fstat(walk.here)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        with _use_rights_of(status):
            yield walk.here, name
    finally:
        walk.close()


@contextmanager
def _use_rights_of(owner: os.stat_result) -> Iterator[None]:
    """Do root's work in a folder of another user with that user's rights: neither a link, nor a hard link,
    nor another folder that is put there leads to what that user may not write anyway.

    All threads of a process share the rights: in a process with threads this is done in a forked child.
    """
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    # Groups first and uid last: without uid 0 the others cannot be changed.
    groups, gid = os.getgroups(), os.getegid()
    with suppress(PermissionError):  # a user namespace may forbid it, which then has no other groups
        os.setgroups([])
    try:
        with suppress(OSError):  # a user namespace may not know them; root's own rights end at its border
            os.setegid(owner.st_gid)
            os.seteuid(owner.st_uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        with suppress(PermissionError):
            os.setgroups(groups)


def open_new(name: str, folder: int, mode: int = 0o600, *, append: bool = False) -> int:
    """Create a file and open it for writing; FileExistsError where it exists."""
    return os.open(name, _NEW | (os.O_APPEND if append else 0), mode, dir_fd=folder)


def open_or_make(name: str, folder: int, mode: int = 0o600) -> int:
    """Open a file of our own folder, as a lock, and create it where it is missing."""
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)


@contextmanager
def new_file(name: str, folder: int, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Create a file; when the block ends without an error, all of it is on the disk (fsync)."""
    with open(open_new(name, folder, mode), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def replace(new: str, name: str, folder: int) -> None:
    """Rename a file to `name`, instead of whatever has that name now."""
    os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)


def link(new: str, name: str, folder: int) -> None:
    """Give a file the name `name`, never instead of another file."""
    os.link(new, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)


def write(
    path: str, content: bytes, mode: int = 0o644, place: Callable[[str, str, int], None] = replace
) -> None:
    """Write a file as a whole: under a temporary name, all of it on disk, then `place` it (`replace` or
    `link`).
    """
    with folder_of(path) as (folder, name):
        _expect_own(name, folder, path)
        # A random name: one that can be guessed could be occupied in advance.
        temporary = f".npudoctor-{os.urandom(8).hex()}"
        try:
            with new_file(temporary, folder, mode) as file:
                file.write(content)
            place(temporary, name, folder)
        finally:
            with suppress(OSError):  # it is gone where it was renamed
                os.unlink(temporary, dir_fd=folder)


def try_folder(path: str) -> None:
    """Raise OSError where no file could be created at the path."""
    with folder_of(path) as (folder, name):
        with suppress(FileNotFoundError):  # a name that is too long
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        trial = f".npudoctor-{os.urandom(8).hex()}"
        os.close(open_new(trial, folder))
        os.unlink(trial, dir_fd=folder)


def _expect_own(name: str, folder: int, path: str) -> None:
    """Raise UnsafePath where a foreign file would be replaced in a folder that all share, even for root."""
    place = os.fstat(folder)
    # Elsewhere whoever may write in the folder may replace the file anyway.
    if not (place.st_mode & stat.S_ISVTX and place.st_mode & 0o022):
        return
    with suppress(FileNotFoundError):
        owner = os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
        distrust = why_not_entry(path, owner, 0, (os.geteuid(), place.st_uid))  # its mode is replaced, too
        if distrust:
            raise UnsafePath(distrust)


def open_stream(path: str) -> Optional[int]:
    """Open the pipe or device at a path for writing; None where a file is to be put there. OSError otherwise.

    A link to a file, or to nothing, is replaced by the file and not followed.
    """
    with folder_of(path) as (folder, name):
        walk = PathWalk(folder)
        try:
            walk.go(name, path)
        # A dangling link and one that root must not follow are replaced by the file.
        except (FileNotFoundError, UnsafePath):
            return None
        else:
            kind = os.fstat(walk.here).st_mode
            if stat.S_ISREG(kind):
                return None
            # A block device would be overwritten, and a socket cannot be opened.
            if not (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return _open_stream(walk.here, name, folder, time.monotonic() + READER)
        finally:
            walk.close()


def _open_stream(there: int, name: str, folder: int, until: float) -> int:
    """Open the very object that was judged. A reader of a pipe may open it a moment later than we do: wait
    for it.
    """
    while True:
        try:
            descriptor = os.open(f"/proc/self/fd/{there}", _STREAM & ~os.O_NOFOLLOW)
            break
        except (FileNotFoundError, PermissionError):  # without /proc, or with another user's rights
            descriptor = os.open(name, _STREAM, dir_fd=folder)
            break
        except OSError as error:
            # ENXIO: O_WRONLY | O_NONBLOCK on a FIFO without a reader (fifo(7)).
            if error.errno != errno.ENXIO or time.monotonic() > until:
                raise
        time.sleep(0.05)
    if not os.path.samestat(os.fstat(descriptor), os.fstat(there)):
        os.close(descriptor)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    return descriptor


def make_folder(path: str, mode: int = 0o700, *, parents: bool = True) -> int:
    """Create a folder, and those above it that are missing; return its descriptor. A link in its place is an
    error.

    The folder may have existed before: a caller that needs it private must judge it.
    """
    walk, missing = PathWalk(), []
    above, _slash, name = path.rstrip("/").rpartition("/")
    try:
        parts = [part for part in above.split("/") if part]
        while True:
            try:
                walk.go("/" + "/".join(parts), path)
                break
            except FileNotFoundError:
                if not parents:
                    raise
                # From the end: the deepest folder that exists is walked to, by its links.
                missing.append(parts.pop())
        for part in reversed(missing):
            with _use_rights_of(os.fstat(walk.here)), suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=walk.here)
            walk.go(part, path)
        with _use_rights_of(os.fstat(walk.here)), suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=walk.here)
        return os.open(name, _FOLDER, dir_fd=walk.here)
    finally:
        walk.close()
