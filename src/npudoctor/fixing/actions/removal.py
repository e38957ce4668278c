"""Removes segments and sockets: each guard is checked once more right before."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_server import PARKED
from npudoctor.fixing.actions.directories import open_folder
from npudoctor.fixing.actions.endings import ActionRefused, AlreadyGone
from npudoctor.fixing.actions.syscalls import remove_segment, rename_without_replacing
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.steps import RemoveSharedMemory, RemoveSocket, RestoreSocket
from npudoctor.host import Host
from npudoctor.host.fs.walk import Parent
from npudoctor.host.network.sockets import Listener
from npudoctor.proof.creator import Life, creator_life
from npudoctor.proof.snapshot import is_listed, living_servers
from npudoctor.proof.socket import serving_process, why_untrusted

# shmctl(2): EINVAL for an id that never was, EIDRM for one that is marked for removal.
_NO_SEGMENT = (errno.EINVAL, errno.EIDRM)
_NO_RENAMEAT2 = (errno.ENOSYS, errno.EINVAL)  # the kernel, or the file system, does not know it


def remove_shared_memory(step: RemoveSharedMemory, host: Host, at: Observer) -> None:
    """Remove a segment by IPC_RMID, after a last IPC_STAT that must show the same unused object."""
    if host.sysvipc.stat_segment(step.shmid) is None:
        raise AlreadyGone
    made_by = creator_life(host, step.cpid, step.ctime)
    if made_by.life is not Life.DEAD:
        raise ActionRefused(made_by.why)
    listed = [row for row in host.sysvipc.read_segments() if row.shmid == step.shmid]
    now = host.sysvipc.stat_segment(step.shmid)
    if now is None:
        raise AlreadyGone
    # Two ways to the kernel that must agree: shmctl, which takes an id, and the table.
    if not listed or not listed[0].is_unchanged_in(now):
        raise ActionRefused(_("shmctl and /proc/sysvipc/shm disagree about segment {id}", id=step.shmid))
    expected = (step.key, step.cpid, step.ctime, step.owner, step.owner, step.size)
    if expected != (now.key, now.cpid, now.ctime, now.cuid, now.uid, now.size) or now.is_destroyed:
        raise ActionRefused(_("segment {id} is not the one that was checked", id=step.shmid))
    # nattch counts every namespace: it is authoritative.
    if now.nattch:
        raise ActionRefused(_("segment {id} has been attached since", id=step.shmid))
    with watch_change(at, f"remove segment {step.shmid}"):
        try:
            remove_segment(step.shmid)
        except OSError as error:
            if error.errno in _NO_SEGMENT:
                raise AlreadyGone from None
            raise


def remove_socket(step: RemoveSocket, host: Host, at: Observer) -> None:
    """Rename the file to a name of ours, verify that it is the one that was judged, then unlink it.

    A file that somebody put there between our look and the rename gets its name back, as does the socket when
    we are stopped in between.
    """
    directory, name = step.path.rsplit("/", 1)
    with open_folder(directory) as (descriptor, parents):
        _expect_same_socket(step, name, descriptor)
        _expect_dead(step, host, name, descriptor, parents)
        with _park(name, descriptor, at) as parked:
            _expect_same_socket(step, parked, descriptor)
            if not _is_listener(Listener.REFUSED, host, parked, descriptor):
                raise ActionRefused(_("a server may answer at {path}", path=step.path))
            with watch_change(at, f"unlink socket {name}"):
                os.unlink(parked, dir_fd=descriptor)


def _expect_dead(
    step: RemoveSocket, host: Host, name: str, descriptor: int, parents: tuple[Parent, ...]
) -> None:
    distrust = why_untrusted(parents, step.owner, host.identity.euid)
    if distrust:
        raise ActionRefused(distrust)
    # Without the socket file nothing would prove any more that the segment is orphaned.
    remaining = {row.shmid for row in host.sysvipc.read_segments()} & set(step.after)
    if remaining:
        raise ActionRefused(
            _(
                "it proves that segment {id} is orphaned; that segment must be removed first",
                id=min(remaining),
            )
        )
    if not host.processes.is_own_namespace():
        raise ActionRefused(_("/proc shows a pid namespace other than npudoctor's"))
    server = serving_process(living_servers(host), step.port)
    if server:
        raise ActionRefused(server)
    directory = step.path.rpartition("/")[0]
    # By its own name and by the one that it had before a removal was killed.
    if is_listed(host, step.path) or is_listed(host, f"{directory}/cache_server_p{step.port}"):
        raise ActionRefused(_("/proc/net/unix lists {path}", path=step.path))
    if not _is_listener(Listener.REFUSED, host, name, descriptor):
        raise ActionRefused(_("a server may answer at {path}", path=step.path))


@contextmanager
def _park(name: str, descriptor: int, at: Observer) -> Iterator[str]:
    """Rename the file to a name of ours; at the end of the block it gets its own back unless it is gone."""
    # A removal that was killed left it under our name already.
    if PARKED.match(name):
        yield name
        return
    # The name says by itself what it was, so that a later run can give it back.
    parked = f".{name}.npudoctor.{os.urandom(8).hex()}"
    try:
        with watch_change(at, f"park socket {name}"):
            _rename(name, parked, descriptor)
        yield parked
    # Ctrl-C as well: the socket of a living server must not stay under our name.
    except BaseException as error:
        try:
            _put_back(parked, name, descriptor, at)
        except Exception:
            # Ctrl-C and the like go on as they are, even where the name could not be given back.
            if isinstance(error, Exception):
                raise
        raise


def _put_back(parked: str, name: str, descriptor: int, at: Observer) -> None:
    try:
        os.stat(parked, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return
    try:
        with watch_change(at, f"put back socket {name}"):
            rename_without_replacing(parked, name, descriptor)
    # Somebody made a new socket under the old name: a server that has just started.
    except FileExistsError:
        raise ActionRefused(
            _(
                "{path} has been replaced since; the earlier file is now called {other}",
                path=name,
                other=parked,
            )
        ) from None


def _rename(old: str, new: str, descriptor: int) -> None:
    try:
        rename_without_replacing(old, new, descriptor)
    except FileNotFoundError:
        raise AlreadyGone from None
    except OSError as error:
        if error.errno in _NO_RENAMEAT2:
            raise ActionRefused(
                _("the kernel or the file system cannot rename without replacing (renameat2)")
            ) from None
        raise


def restore_socket(step: RestoreSocket, host: Host, at: Observer) -> None:
    """Give a parked socket at which a server answers its name back, unless that name is taken."""
    directory, name = step.path.rsplit("/", 1)
    with open_folder(directory) as (descriptor, parents):
        _expect_same_socket(step, name, descriptor)
        distrust = why_untrusted(parents, step.owner, host.identity.euid)
        if distrust:
            raise ActionRefused(distrust)
        if not _is_listener(Listener.ALIVE, host, name, descriptor):
            raise ActionRefused(_("no server answers at {path} any longer", path=step.path))
        with watch_change(at, f"restore socket {name}"):
            _rename(name, step.back_to.rsplit("/", 1)[1], descriptor)


def _expect_same_socket(step: RemoveSocket | RestoreSocket, name: str, descriptor: int) -> None:
    try:
        now = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        raise AlreadyGone from None
    expected = (step.device, step.inode, step.mtime_ns, step.owner)
    if expected != (now.st_dev, now.st_ino, now.st_mtime_ns, now.st_uid) or not stat.S_ISSOCK(now.st_mode):
        raise ActionRefused(_("{path} has been replaced since", path=step.path))


def _is_listener(listener: Listener, host: Host, name: str, descriptor: int) -> bool:
    return host.sockets.probe(name, descriptor) is listener
