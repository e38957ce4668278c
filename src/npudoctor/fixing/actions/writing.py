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
from npudoctor.fixing.actions.endings import ActionFailed, ActionRefused, AlreadyGone
from npudoctor.fixing.actions.syscalls import rename_without_replacing
from npudoctor.fixing.journal import own_folder
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.texts import LIMIT, FileState, PutBack, WriteFile, backup_path, digest
from npudoctor.host import Host
from npudoctor.host.fs.disk import entry_from_stat


@dataclass(frozen=True)
class CurrentFile:
    """A file that exists: its content, what it is, and its extended attributes (labels, access lists)."""

    content: bytes
    was: FileState
    attributes: tuple[tuple[str, bytes], ...]


def write_file(step: WriteFile, host: Host, at: Observer) -> None:
    """Replace the file by one rename, if it is still the one that was looked at; a backup is made first."""
    with _open_own_folder(step.path, host) as (folder, name):
        current = _read_current(folder, name, step.path)
        if current and current.content == step.raw:
            raise AlreadyGone(_("{path} already has that value", path=step.path))
        # Also where the file appeared or vanished.
        if (current and current.was) != step.was:
            raise ActionRefused(_("{path} has changed since", path=step.path))
        if current:
            save_backup(step.kept, current.content, host, at)
        with _prepare(folder, name, step.raw, step.was, step.mode, current, at) as new:
            _expect_unchanged(current, folder, name, step.path)
            with watch_change(at, f"write file {name}"):
                _rename_into_place(new, name, folder, replacing=current is not None)
            os.fsync(folder)  # it is changed already, whatever the disk says now


def put_back(step: PutBack, host: Host, at: Observer) -> None:
    """Restore what the path had before it was written, if nobody has changed it since."""
    with _open_own_folder(step.path, host) as (folder, name):
        current = _read_current(folder, name, step.path)
        # Gone where the old state is back already, Refused where the file is neither the old nor ours.
        if current is None and step.was is None:
            raise AlreadyGone
        if current is None:
            raise ActionRefused(_("{path} has been removed since", path=step.path))
        # A put back was killed between its rename and its record.
        if step.was and current.was.lasting == step.was.lasting:
            raise AlreadyGone(_("it is already in its earlier state"))
        if digest(current.content) != step.sha256:
            raise ActionRefused(_("{path} has changed since", path=step.path))
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
                _rename_into_place(new, name, folder, replacing=True)
            os.fsync(folder)
        # The rename is done; whether owner and mode came along is seen only now.
        again = _read_current(folder, name, step.path)
        if again is None or again.was.lasting != step.was.lasting:
            raise ActionFailed(_("{path} is not in its earlier state", path=step.path))


@contextmanager
def _open_own_folder(path: str, host: Host) -> Iterator[tuple[int, str]]:
    """Open the folder of a path; yield its descriptor and the name in it. ActionRefused where others than
    root and us may write there.
    """
    directory, _slash, name = path.rpartition("/")
    if not path.startswith("/") or name in ("", ".", ".."):
        raise ActionRefused(_("{path} is not the path of a file", path=path))
    try:
        folder = open_folder(directory or "/")
        descriptor, parents = folder.__enter__()
    except AlreadyGone:
        raise ActionRefused(_("the folder {path} does not exist", path=directory)) from None
    try:
        for index, parent in enumerate(parents):
            last = index + 1 == len(parents)
            why = why_not_entry(parent.path, parent.uid, parent.mode, (0, host.identity.euid), place=last)
            if why:
                raise ActionRefused(why)
        _remove_leftover(descriptor, _new_name(name))  # what a run that was killed left
        yield descriptor, name
    finally:
        folder.__exit__(None, None, None)


def _read_current(folder: int, name: str, path: str) -> Optional[CurrentFile]:
    """Read the regular file of this name by one descriptor; None where there is none, ActionRefused for
    another kind.
    """
    try:
        # O_NONBLOCK: a FIFO in its place must not make us wait.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        # open(2): ELOOP for a link with O_NOFOLLOW, ENXIO for a socket.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise ActionRefused(_("{path} is not a regular file", path=path)) from None
        raise
    try:
        entry = os.fstat(descriptor)
        if not stat.S_ISREG(entry.st_mode):
            raise ActionRefused(_("{path} is not a regular file", path=path))
        # A rename would leave the other names with the old content.
        if entry.st_nlink != 1:
            raise ActionRefused(_("{path} has other hard links, which would not change with it", path=path))
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(LIMIT + 1)
        if len(content) > LIMIT:
            raise ActionRefused(_("{path} is larger than {most} bytes", path=path, most=LIMIT))
        return CurrentFile(
            content, FileState.of(content, entry_from_stat(entry)), _read_attributes(descriptor)
        )
    finally:
        os.close(descriptor)


def _read_attributes(descriptor: int) -> tuple[tuple[str, bytes], ...]:
    try:
        names = os.listxattr(descriptor)
    except OSError as error:
        # File systems without extended attributes.
        if error.errno == errno.ENOTSUP:
            return ()
        raise
    return tuple((name, os.getxattr(descriptor, name)) for name in names)


def _expect_unchanged(current: Optional[CurrentFile], folder: int, name: str, path: str) -> None:
    """Raise ActionRefused unless everything that was read is still the same: the last look before
    the rename.
    """
    if _read_current(folder, name, path) != current:
        raise ActionRefused(_("{path} has changed since", path=path))


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
    """Write the new file under a name of ours, all of it on disk, and yield that name; it is removed unless
    it was renamed.

    The name is always the same, so that the next run can remove what a kill left there.
    """
    new = _new_name(name)
    try:
        with watch_change(at, f"prepare file {name}"), way.new_file(new, folder) as file:
            file.write(content)
            if owner:
                os.fchown(file.fileno(), owner.uid, owner.gid)
            have = dict(_read_attributes(file.fileno()))  # a label that it has anyway may not be ours to set
            for key, value in current.attributes if current else ():
                if have.get(key) != value:
                    os.setxattr(file.fileno(), key, value)
            # Last: chown clears set-user-id bits, and an access list could change the mode.
            os.fchmod(file.fileno(), owner.mode if owner else mode)
        yield new
    finally:
        _remove_leftover(folder, new)


def _new_name(name: str) -> str:
    return f".{name}.npudoctor.new"


def _remove_leftover(folder: int, name: str) -> None:
    """Remove what a run of ours left under this name; only we and root can have put it into this folder."""
    # Usually there is nothing.
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _rename_into_place(new: str, name: str, folder: int, *, replacing: bool) -> None:
    if replacing:
        way.replace(new, name, folder)
        return
    try:
        rename_without_replacing(new, name, folder)
    except FileExistsError:
        raise ActionRefused(_("{path} has changed since", path=name)) from None
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EINVAL):
            text = _("the kernel or the file system cannot rename without replacing (renameat2)")
            raise ActionRefused(text) from None
        raise


def save_backup(path: Optional[str], content: bytes, host: Host, at: Observer) -> None:
    """Write the copy to disk before its original is touched."""
    expected = backup_path(host, digest(content))
    if path != expected:  # what was shown is what is done
        raise ActionRefused(_("its backup would be {path}", path=expected))
    # The folder of copies lies in it, and is made private only inside of a private one.
    os.close(own_folder(host.records.directory, "state folder", at))
    folder = own_folder(os.path.dirname(expected), "folder of copies", at)
    try:
        if _read_own_file(expected, host.identity.euid) == content:
            return
        with watch_change(at, "keep copy"):
            _remove_leftover(folder, "new")  # what a run that was killed left
            with way.new_file("new", folder) as file:
                file.write(content)
            way.replace("new", os.path.basename(expected), folder)
            os.fsync(folder)
    finally:
        os.close(folder)


def read_backup(path: str, sha256: str, host: Host) -> bytes:
    """The content of a copy; ActionRefused where it is gone or was changed."""
    content = _read_own_file(path, host.identity.euid) if path == backup_path(host, sha256) else None
    if content is None or digest(content) != sha256:
        raise ActionRefused(_("the backup {path} is gone or was changed", path=path))
    return content


def _read_own_file(path: str, euid: int) -> Optional[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        return file.read(LIMIT + 1) if is_own_file(os.fstat(descriptor), euid) else None
