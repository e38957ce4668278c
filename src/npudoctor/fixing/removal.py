"""Removes segments, sockets and spilled files: each guard is checked once more right before."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from npudoctor.fixing.outcome import Gone, Observer, Refused
from npudoctor.fixing.steps import FileMark, RemoveFiles, RemoveSharedMemory, RemoveSocket, RestoreSocket
from npudoctor.fixing.syscalls import remove_segment, rename_without_replacing
from npudoctor.host import Host
from npudoctor.host.cacheserver import PARKED, Parent, entry_of, open_directory
from npudoctor.host.cacheserver import spill_folder as look_at_folder
from npudoctor.host.sockets import Listener, collapse
from npudoctor.host.sysvipc import Segment
from npudoctor.messages import _
from npudoctor.proof.creator import Life, creator
from npudoctor.proof.socket import untrusted_parent
from npudoctor.proof.spill import users_of


@contextmanager
def changing(at: Observer, name: str) -> Iterator[None]:
    """Around every single change of the machine, so that a test can stop us before and after each."""
    at(f"before {name}")
    yield
    at(f"after {name}")


def remove_shared_memory(step: RemoveSharedMemory, host: Host, at: Observer) -> None:
    """IPC_RMID on the shmid, after a last IPC_STAT that must show the same unused object."""
    now = host.sysvipc.look(step.shmid)
    if now is None:
        raise Gone
    listed = [row for row in host.sysvipc.segments_now() if row.shmid == step.shmid]
    if not listed or not listed[0].same_as(now):
        raise Refused(_("shmctl and /proc/sysvipc/shm disagree about segment {id}").format(id=step.shmid))
    if not _meant(step, now):
        raise Refused(_("segment {id} is not the one that was looked at").format(id=step.shmid))
    if now.nattch:
        raise Refused(_("segment {id} was attached since").format(id=step.shmid))
    made_by = creator(host, step.cpid, step.ctime)
    if made_by.life is not Life.DEAD:
        raise Refused(made_by.why)
    with changing(at, f"remove segment {step.shmid}"):
        remove_segment(step.shmid)


def _meant(step: RemoveSharedMemory, now: Segment) -> bool:
    seen = (step.key, step.cpid, step.ctime, step.owner, step.size)
    return seen == (now.key, now.cpid, now.ctime, now.cuid, now.size) and not now.destroyed


def remove_socket(step: RemoveSocket, host: Host, at: Observer) -> None:
    """Park the file under a name of ours, make sure that it is the one, then unlink it.

    Whoever replaces the file between our look and the rename gets it back.
    """
    directory, name = step.path.rsplit("/", 1)
    with open_directory(directory) as (descriptor, parents):
        _same_socket(name, descriptor, step.device, step.inode, step.owner)
        _still_dead(step, host, name, descriptor, parents)
        parked = name if PARKED.match(name) else f".{name}.npudoctor.{secrets.token_hex(8)}"
        if parked != name:
            with changing(at, f"park socket {name}"):
                rename_without_replacing(name, parked, descriptor)
        if not _is(parked, descriptor, step.device, step.inode) or not _refused(host, parked, descriptor):
            if parked != name:
                rename_without_replacing(parked, name, descriptor)
            raise Refused(_("{path} was replaced since").format(path=step.path))
        with changing(at, f"unlink socket {name}"):
            os.unlink(parked, dir_fd=descriptor)


def _still_dead(
    step: RemoveSocket, host: Host, name: str, descriptor: int, parents: tuple[Parent, ...]
) -> None:
    distrust = untrusted_parent(parents, step.owner, host.identity.euid)
    if distrust:
        raise Refused(distrust)
    remaining = {row.shmid for row in host.sysvipc.segments_now()} & set(step.after)
    if remaining:
        text = _("it is the proof for segment {id}, which must go first")
        raise Refused(text.format(id=min(remaining)))
    if not _refused(host, name, descriptor):
        raise Refused(_("a server may answer at {path}").format(path=step.path))
    if collapse(step.path) in host.sockets.unix_paths():
        raise Refused(_("/proc/net/unix lists {path}").format(path=step.path))


def restore_socket(step: RestoreSocket, host: Host, at: Observer) -> None:
    """Give a parked socket its name back, unless that name is taken."""
    directory, name = step.path.rsplit("/", 1)
    with open_directory(directory) as (descriptor, parents):
        _same_socket(name, descriptor, step.device, step.inode, step.owner)
        distrust = untrusted_parent(parents, step.owner, host.identity.euid)
        if distrust:
            raise Refused(distrust)
        with changing(at, f"restore socket {name}"):
            rename_without_replacing(name, step.back_to.rsplit("/", 1)[1], descriptor)


def remove_files(step: RemoveFiles, host: Host, at: Observer) -> None:
    """Unlink the known files of a folder by its descriptor, then the folder itself."""
    folder = look_at_folder(step.directory)
    if folder is None:
        raise Gone
    entry = folder.entry
    seen = (step.device, step.inode, step.owner, 0o700)
    if seen != (entry.dev, entry.ino, entry.uid, entry.permissions):
        raise Refused(_("{path} was replaced since").format(path=step.directory))
    if {name for name, _entry in folder.files} - {mark.name for mark in step.files}:
        raise Refused(_("{path} holds files that were not there before").format(path=step.directory))
    distrust = untrusted_parent(folder.parents, step.owner, host.identity.euid) or users_of(host, folder)
    if distrust:
        raise Refused(distrust)
    _unlink_all(step, at)
    parent, name = step.directory.rsplit("/", 1)
    with open_directory(parent or "/") as (descriptor, _parents):
        if _is(name, descriptor, step.device, step.inode):
            with changing(at, f"remove folder {name}"):
                os.rmdir(name, dir_fd=descriptor)


def _unlink_all(step: RemoveFiles, at: Observer) -> None:
    with open_directory(step.directory) as (descriptor, _parents):
        if (os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino) != (step.device, step.inode):
            raise Refused(_("{path} was replaced since").format(path=step.directory))
        for mark in step.files:
            if _unchanged(mark, descriptor):
                with changing(at, f"unlink file {mark.name}"):
                    os.unlink(mark.name, dir_fd=descriptor)


def _unchanged(mark: FileMark, descriptor: int) -> bool:
    """Whether the file is still the one that was looked at; False when it is gone, Refused when not."""
    try:
        now = entry_of(os.stat(mark.name, dir_fd=descriptor, follow_symlinks=False))
    except FileNotFoundError:
        return False
    seen = (mark.device, mark.inode, mark.size, mark.mtime_ns, 1)
    if seen != (now.dev, now.ino, now.size, now.mtime_ns, now.nlink) or not now.is_file:
        raise Refused(_("{path} was changed since").format(path=mark.name))
    return True


def _same_socket(name: str, descriptor: int, device: int, inode: int, owner: int) -> None:
    try:
        now = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        raise Gone from None
    if (now.st_dev, now.st_ino, now.st_uid) != (device, inode, owner) or not stat.S_ISSOCK(now.st_mode):
        raise Refused(_("{path} was replaced since").format(path=name))


def _is(name: str, descriptor: int, device: int, inode: int) -> bool:
    try:
        now = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (device, inode)


def _refused(host: Host, name: str, descriptor: int) -> bool:
    return host.sockets.probe(name, descriptor) is Listener.REFUSED
