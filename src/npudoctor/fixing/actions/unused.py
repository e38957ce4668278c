"""Removes files that nobody in the whole kernel has open or mapped, as a write lease proves.

F_SETLEASE with F_WRLCK is granted only where no other open file description of the inode exists, in
whatever namespace and whether /proc shows it or not; who opens the file while we hold the lease waits until
we let go. Tried on Linux 6.18, on tmpfs, ext4, xfs and btrfs: it is refused (EAGAIN) while another process
has the file open for reading or writing, through another name of it, or from other pid and mount namespaces;
while one only maps it, shared or private, with the descriptor closed; and while a descriptor of it is on its
way through a socket. O_PATH descriptors are not seen: they give no access to what is in the file. On
overlayfs it is granted *although the file is mapped*, as a mapping there belongs to the inode below. So it
counts on those file systems only on which it was tried.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from npudoctor.core.messages import _, ngettext, strerror
from npudoctor.facts.leftovers.shm_files import FOLDER, SharedFile, find_maker
from npudoctor.fixing.actions.directories import open_folder, refuse_replaced
from npudoctor.fixing.actions.endings import ActionRefused, AlreadyGone
from npudoctor.fixing.actions.folders import expect_file
from npudoctor.fixing.actions.syscalls import file_system
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.steps import RemoveUnused
from npudoctor.host import Host
from npudoctor.host.fs.disk import entry_from_stat
from npudoctor.proof.shared_file import judge_shared_files
from npudoctor.proof.shared_storage import why_shared
from npudoctor.proof.socket import why_untrusted
from npudoctor.proof.unused import PossibleUsers

TRIED_FILE_SYSTEMS = (0x01021994, 0xEF53, 0x58465342, 0x9123683E)  # tmpfs; ext2, ext3 and ext4; xfs; btrfs
# A write lease needs no write access; O_NONBLOCK: a file with somebody's lease answers EAGAIN at once.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def remove_unused(step: RemoveUnused, host: Host, at: Observer) -> None:
    """Unlink each file while we hold its lease; files that cannot be removed do not stop the others."""
    with open_folder(step.directory) as (descriptor, parents):
        distrust = why_untrusted(parents, step.owner, host.identity.euid)
        if distrust:
            raise ActionRefused(distrust)
        # A lease knows only this kernel's users.
        shared = why_shared(host, step.directory)
        if shared:
            raise ActionRefused(shared)
        doubts = _find_doubts(step, host, descriptor) if step.directory == FOLDER else {}
        gone_count, refusals = 0, []
        for mark in step.files:
            try:
                with refuse_replaced(f"{step.directory}/{mark.name}"):
                    path = f"{step.directory}/{mark.name}"
                    expect_file(
                        mark,
                        step.owner,
                        entry_from_stat(os.stat(mark.name, dir_fd=descriptor, follow_symlinks=False)),
                    )
                    if mark.name in doubts:
                        raise ActionRefused(doubts[mark.name])
                    with _hold_lease(mark.name, path, descriptor) as file:
                        expect_file(mark, step.owner, entry_from_stat(os.fstat(file)))
                        # It may have got another file's name in between.
                        expect_file(
                            mark,
                            step.owner,
                            entry_from_stat(os.stat(mark.name, dir_fd=descriptor, follow_symlinks=False)),
                        )
                        with watch_change(at, f"unlink file {mark.name}"):
                            if (
                                fcntl.fcntl(file, fcntl.F_GETLEASE) != fcntl.F_WRLCK
                            ):  # somebody waits to open it
                                raise ActionRefused(_("{path} is being opened", path=path))
                            os.unlink(mark.name, dir_fd=descriptor)
            except AlreadyGone:
                gone_count += 1
            except ActionRefused as refusal:
                refusals.append(str(refusal))
    if refusals:
        raise ActionRefused(
            ngettext(
                "{count} file is kept: {why}",
                "{count} files are kept: {why}",
                len(refusals),
                count=len(refusals),
                why=refusals[0],
            )
        )
    if gone_count == len(step.files):
        raise AlreadyGone


def _find_doubts(step: RemoveUnused, host: Host, descriptor: int) -> Mapping[str, str]:
    """The files in /dev/shm that are no longer proven left over, by name, each with the reason."""
    files, reasons = [], {}
    for mark in step.files:
        maker_and_kind = find_maker(mark.name)
        if maker_and_kind is None:
            reasons[mark.name] = _("the name of {path} does not match a known library", path=mark.name)
            continue
        # Gone since the plan was shown.
        with suppress(FileNotFoundError):
            status = os.stat(mark.name, dir_fd=descriptor, follow_symlinks=False)
            files.append(SharedFile(f"{FOLDER}/{mark.name}", entry_from_stat(status), *maker_and_kind))
    knowers = PossibleUsers(host)
    for verdict in judge_shared_files(host, files):
        why = verdict.why if not verdict.in_use else _("it is in use")
        why = why or knowers.why_not(verdict.file)
        if why:
            reasons[verdict.file.name] = f"{verdict.file.path}: {why}"
    return reasons


@contextmanager
def _hold_lease(name: str, path: str, directory: int) -> Iterator[int]:
    """Open a file and hold its write lease; yield the descriptor. ActionRefused where it is not granted or
    proves nothing.
    """
    try:
        file = os.open(name, _OPEN, dir_fd=directory)
    except BlockingIOError:  # somebody else's lease
        raise ActionRefused(_("{path} is in use", path=path)) from None
    except PermissionError as error:
        raise ActionRefused(f"{path}: {strerror(error.errno)}") from None
    try:
        if file_system(file) not in TRIED_FILE_SYSTEMS:
            raise ActionRefused(
                _("{path}: a lease on its file system does not prove that it is unused", path=path)
            )
        _take_lease(file, path)
        yield file
    finally:
        os.close(file)  # which gives the lease back


def _take_lease(file: int, path: str) -> None:
    """Take a write lease; ActionRefused where the kernel refuses it."""
    # Who opens it makes the kernel signal us: by SIGURG, which does nothing, and not by SIGIO, which kills.
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            text = _("{path} is in use: the kernel grants no lease")
        else:  # no leases here, or no right to them: nothing is proven
            text = _("{path}: could not determine whether it is in use (the kernel grants no lease)")
        raise ActionRefused(text.format(path=path)) from None
