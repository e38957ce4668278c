"""The steps that remove what a cache server left: each of that very object."""

from __future__ import annotations

from typing import Optional

from npudoctor import FileMark, RemoveFiles, RemoveSharedMemory, RemoveSocket, RestoreSocket
from npudoctor.facts.leftovers.cache_log import ServerLog
from npudoctor.facts.leftovers.cache_server import SocketFile, SpillFolder
from npudoctor.host.process.sysvipc import Segment
from npudoctor.proof.leftovers import StaleSocket


def remove_segment(segment: Segment, log: Optional[ServerLog] = None) -> RemoveSharedMemory:
    """Return the step that removes exactly this segment. The device and inode of its log are recorded: they
    prove later which spilled data is the server's."""
    return RemoveSharedMemory(
        # By shmid and times, never by key: a key may belong to a segment that was created since, a stale id
        # gives EINVAL (shmctl(2)).
        shmid=segment.shmid,
        key=segment.key,
        cpid=segment.cpid,
        ctime=segment.ctime,
        dtime=segment.dtime,
        size=segment.size,
        owner=segment.cuid,
        log_device=log.entry.dev if log else None,
        log_inode=log.entry.ino if log else None,
    )


def remove_socket(stale: StaleSocket) -> RemoveSocket:
    """Return the step that removes exactly this socket file (device, inode, mtime)."""
    entry = stale.file.entry
    return RemoveSocket(
        path=stale.file.path,
        device=entry.dev,
        inode=entry.ino,
        mtime_ns=entry.mtime_ns,
        owner=entry.uid,
        port=stale.file.port,
        after=stale.after,
    )


def restore_socket(socket: SocketFile) -> RestoreSocket:
    """Return the step that gives a running server's socket its original name back."""
    entry = socket.entry
    return RestoreSocket(socket.path, socket.original, entry.dev, entry.ino, entry.mtime_ns, entry.uid)


def remove_spill(folder: SpillFolder) -> RemoveFiles:
    """Return the step that removes exactly the files of this folder, then the folder."""
    marks = tuple(FileMark(name, file.dev, file.ino, file.size, file.mtime_ns) for name, file in folder.files)
    return RemoveFiles(folder.path, folder.entry.dev, folder.entry.ino, folder.entry.uid, marks)
