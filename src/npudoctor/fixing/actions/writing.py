"""Writes a text file as a whole, and puts back what was there: old or new, never half of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Optional

from npudoctor.core import way
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.trust.rule import is_own_file, why_not_entry
from npudoctor.fixing.actions.directories import open_folder
from npudoctor.fixing.actions.endings import Failed, Gone, Refused
from npudoctor.fixing.actions.syscalls import rename_without_replacing
from npudoctor.fixing.journal import own_folder
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.texts import LIMIT, FileState, PutBack, WriteFile, digest, kept_path
from npudoctor.host import Host
from npudoctor.host.fs.disk import entry_from_stat


@dataclass(frozen=True)
class CurrentFile:
    """A file that is there: its content, what it is, and its extended attributes (labels, access lists)."""

    content: bytes
    was: FileState
    attributes: tuple[tuple[str, bytes], ...]


def write_file(step: WriteFile, host: Host, at: Observer) -> None:
    """Replace the file by one rename, if it is still the one that was looked at; a backup is made first."""
    with _folder(step.path, host) as (folder, name):
        current = _look(folder, name, step.path)
        if current and current.content == step.raw:
            raise Gone(_("{path} already has that value", path=step.path))
        if (current and current.was) != step.was:
            raise Refused(_("{path} has changed since", path=step.path))
        if current:
            save_backup(step.kept, current.content, host, at)
        with _prepare(folder, name, step.raw, step.was, step.mode, current, at) as new:
            _expect_unchanged(current, folder, name, step.path)
            with watch_change(at, f"write file {name}"):
                _put(new, name, folder, replacing=current is not None)
            os.fsync(folder)  # it is changed already, whatever the disk says now


def put_back(step: PutBack, host: Host, at: Observer) -> None:
    """Give the path back what it had before it was written, if nobody has changed it since."""
    with _folder(step.path, host) as (folder, name):
        current = _look(folder, name, step.path)
        # Gone where the old state is back already, Refused where the file is neither the old nor ours.
        if current is None and step.was is None:
            raise Gone
        if current is None:
            raise Refused(_("{path} has been removed since", path=step.path))
        if step.was and current.was.lasting == step.was.lasting:
            raise Gone(_("it is already in its earlier state"))
        if digest(current.content) != step.sha256:
            raise Refused(_("{path} has changed since", path=step.path))
        if step.was is None or step.kept is None:
            _expect_unchanged(current, folder, name, step.path)
            with watch_change(at, f"remove file {name}"):
                os.unlink(name, dir_fd=folder)
            os.fsync(folder)
            return
        old = read_backup(step.kept, step.was.sha256, host)
        with _prepare(folder, name, old, step.was, step.was.mode, current, at) as new:
            _expect_unchanged(current, folder, name, step.path)
            with watch_change(at, f"restore file {name}"):
                _put(new, name, folder, replacing=True)
            os.fsync(folder)
        again = _look(folder, name, step.path)
        if again is None or again.was.lasting != step.was.lasting:
            raise Failed(_("{path} is not in its earlier state", path=step.path))


@contextmanager
def _folder(path: str, host: Host) -> Iterator[tuple[int, str]]:
    """The descriptor of the folder of a path, and the name in it. Nobody but root and us may write there."""
    directory, _slash, name = path.rpartition("/")
    if not path.startswith("/") or name in ("", ".", ".."):
        raise Refused(_("{path} is not the path of a file", path=path))
    try:
        folder = open_folder(directory or "/")
        descriptor, parents = folder.__enter__()
    except Gone:
        raise Refused(_("the folder {path} does not exist", path=directory)) from None
    try:
        for index, parent in enumerate(parents):
            last = index + 1 == len(parents)
            why = why_not_entry(parent.path, parent.uid, parent.mode, (0, host.identity.euid), place=last)
            if why:
                raise Refused(why)
        _clear(descriptor, _new_name(name))  # what a run that was killed left
        yield descriptor, name
    finally:
        folder.__exit__(None, None, None)


def _look(folder: int, name: str, path: str) -> Optional[CurrentFile]:
    """The plain file of this name, by one descriptor; None for nothing, Refused for what is not plain."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise Refused(_("{path} is not a regular file", path=path)) from None
        raise
    try:
        entry = os.fstat(descriptor)
        if not stat.S_ISREG(entry.st_mode):
            raise Refused(_("{path} is not a regular file", path=path))
        if entry.st_nlink != 1:
            raise Refused(_("{path} has other hard links, which would not change with it", path=path))
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(LIMIT + 1)
        if len(content) > LIMIT:
            raise Refused(_("{path} is larger than {most} bytes", path=path, most=LIMIT))
        return CurrentFile(content, FileState.of(content, entry_from_stat(entry)), _attributes(descriptor))
    finally:
        os.close(descriptor)


def _attributes(descriptor: int) -> tuple[tuple[str, bytes], ...]:
    try:
        names = os.listxattr(descriptor)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return ()
        raise
    return tuple((name, os.getxattr(descriptor, name)) for name in names)


def _expect_unchanged(current: Optional[CurrentFile], folder: int, name: str, path: str) -> None:
    """The last look: everything that was read is still so."""
    if _look(folder, name, path) != current:
        raise Refused(_("{path} has changed since", path=path))


@contextmanager
def _prepare(
    folder: int,
    name: str,
    content: bytes,
    owner: Optional[FileState],
    mode: int,
    current: Optional[CurrentFile],
    at: Observer,
) -> Iterator[str]:
    """The new file under a name of ours, all of it on disk; it is gone again unless it was renamed.

    The name is always the same, so that the next run knows what a kill left there.
    """
    new = _new_name(name)
    try:
        with watch_change(at, f"prepare file {name}"), way.new_file(new, folder) as file:
            file.write(content)
            if owner:
                os.fchown(file.fileno(), owner.uid, owner.gid)
            have = dict(_attributes(file.fileno()))  # a label that it has anyway may not be ours to set
            for key, value in current.attributes if current else ():
                if have.get(key) != value:
                    os.setxattr(file.fileno(), key, value)
            os.fchmod(file.fileno(), owner.mode if owner else mode)
        yield new
    finally:
        _clear(folder, new)


def _new_name(name: str) -> str:
    return f".{name}.npudoctor.new"


def _clear(folder: int, name: str) -> None:
    """Remove what a run of ours left under this name; only we and root can have put it into this folder."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _put(new: str, name: str, folder: int, *, replacing: bool) -> None:
    if replacing:
        way.replace(new, name, folder)
        return
    try:
        rename_without_replacing(new, name, folder)
    except FileExistsError:
        raise Refused(_("{path} has changed since", path=name)) from None
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EINVAL):
            text = _("the kernel or the file system cannot rename without replacing (renameat2)")
            raise Refused(text) from None
        raise


def save_backup(path: Optional[str], content: bytes, host: Host, at: Observer) -> None:
    """Have the copy on disk before its original is touched."""
    expected = kept_path(host, digest(content))
    if path != expected:  # what was shown is what is done
        raise Refused(_("its backup would be {path}", path=expected))
    os.close(own_folder(host.records.directory, "state folder", at))
    folder = own_folder(os.path.dirname(expected), "folder of copies", at)
    try:
        if _read(expected, host.identity.euid) == content:
            return
        with watch_change(at, "keep copy"):
            _clear(folder, "new")  # what a run that was killed left
            with way.new_file("new", folder) as file:
                file.write(content)
            way.replace("new", os.path.basename(expected), folder)
            os.fsync(folder)
    finally:
        os.close(folder)


def read_backup(path: str, sha256: str, host: Host) -> bytes:
    """The content of a copy; Refused where it is gone, or is not what it was."""
    content = _read(path, host.identity.euid) if path == kept_path(host, sha256) else None
    if content is None or digest(content) != sha256:
        raise Refused(_("the backup {path} is gone or was changed", path=path))
    return content


def _read(path: str, euid: int) -> Optional[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        return file.read(LIMIT + 1) if is_own_file(os.fstat(descriptor), euid) else None
