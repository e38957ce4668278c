"""Reads System V shared memory, queues and semaphores from /proc/sysvipc, and one segment by shmctl(2)."""

from __future__ import annotations

import errno
import os
import struct
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, strerror
from npudoctor.host.fs.files import Disk

IPC_STAT = 2  # of linux/ipc.h

# struct shmid_ds of the 64-bit Linux kernels (asm-generic/shmbuf.h): the permissions (48 bytes),
# then size, three times, two pids, attachments. glibc pads the permissions to the same offsets.
_SHMID_DS = struct.Struct("=iIIIIIHH4xQQ" + "QqqqiiQ" + "QQ")


@dataclass(frozen=True)
class Segment:
    """One shared memory segment; fields as of shmctl(2). `size` in bytes, times in seconds since the epoch
    and 0 for never, `key` unsigned."""

    key: int
    shmid: int
    mode: int
    size: int
    cpid: int
    lpid: int
    nattch: int
    uid: int
    gid: int
    cuid: int
    cgid: int
    atime: int
    dtime: int
    ctime: int

    @property
    def permissions(self) -> int:
        """The mode without SHM_DEST and SHM_LOCKED, which the kernel keeps in the same field."""
        # SHM_DEST is 01000, SHM_LOCKED 02000.
        return self.mode & 0o777

    @property
    def is_destroyed(self) -> bool:
        """Whether it is removed (SHM_DEST) and exists only until the last process detaches."""
        # SHM_DEST of linux/shm.h.
        return bool(self.mode & 0o1000)

    def is_unchanged_in(self, other: Segment) -> bool:
        """Whether `other` is the same segment and nobody has attached since: asked before it is removed."""
        own_fields = (self.shmid, self.key, self.cpid, self.ctime, self.nattch, self.cuid, self.size)
        other_fields = (other.shmid, other.key, other.cpid, other.ctime, other.nattch, other.cuid, other.size)
        return own_fields == other_fields


@dataclass(frozen=True)
class IpcObject:
    """A message queue ("msg") or a semaphore set ("sem"); `amount`: bytes in the queue, or semaphores."""

    kind: str
    key: int
    id: int
    permissions: int
    amount: int
    uid: int
    cuid: int
    ctime: int


def _parse_rows(text: str) -> list[dict[str, int]]:
    """Parse a file of /proc/sysvipc by its header line; its column perms is octal."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    header = lines[0]
    return [
        {name: int(value, 8 if name == "perms" else 10) for name, value in zip(header, line)}
        for line in lines[1:]
    ]


def parse_segments(text: str) -> list[Segment]:
    """The segments of /proc/sysvipc/shm; ValueError or KeyError if its layout is not known."""
    return [
        Segment(
            row["key"] & 0xFFFFFFFF, row["shmid"], row["perms"], row["size"], row["cpid"], row["lpid"],
            row["nattch"], row["uid"], row["gid"], row["cuid"], row["cgid"], row["atime"], row["dtime"],
            row["ctime"],
        )
        for row in _parse_rows(text)
    ]  # fmt: skip


def parse_queues(text: str) -> list[IpcObject]:
    """The queues of /proc/sysvipc/msg; ValueError or KeyError if its layout is not known."""
    return [
        IpcObject("msg", row["key"] & 0xFFFFFFFF, row["msqid"], row["perms"], row["cbytes"], row["uid"],
              row["cuid"], row["ctime"])
        for row in _parse_rows(text)
    ]  # fmt: skip


def parse_semaphores(text: str) -> list[IpcObject]:
    """The semaphore sets of /proc/sysvipc/sem; ValueError or KeyError if its layout is not known."""
    return [
        IpcObject("sem", row["key"] & 0xFFFFFFFF, row["semid"], row["perms"], row["nsems"], row["uid"],
              row["cuid"], row["ctime"])
        for row in _parse_rows(text)
    ]  # fmt: skip


class SysVIPC:
    """The IPC objects of our namespace, read once; `look` asks the kernel about one id now."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._segments: Optional[list[Segment]] = None

    def segments(self) -> list[Segment]:
        """All shared memory segments, read once; anybody may read this table."""
        if self._segments is None:
            self._segments = self.read_segments()
        return self._segments

    def read_segments(self) -> list[Segment]:
        """All shared memory segments as they are now."""
        try:
            return parse_segments(self._read_table("shm"))
        except (KeyError, ValueError) as error:
            raise CannotTell(_("/proc/sysvipc/shm has an unknown layout: {why}", why=error)) from error

    def queues_and_semaphores(self) -> list[IpcObject]:
        """All message queues and semaphore sets."""
        try:
            return parse_queues(self._read_table("msg")) + parse_semaphores(self._read_table("sem"))
        except (KeyError, ValueError) as error:
            raise CannotTell(_("/proc/sysvipc has an unknown layout: {why}", why=error)) from error

    def _read_table(self, name: str) -> str:
        try:
            return self._disk.read(f"/proc/sysvipc/{name}", 64 << 20).decode("ascii", "replace")
        except OSError as error:
            why = strerror(error.errno)
            # A /proc mounted with subset=pid (Linux 5.8) has no sysvipc; only a trial can tell then.
            tried_by = ("trial-shared-memory",) if error.errno == errno.ENOENT else ()
            text = _("/proc/sysvipc/{name} cannot be read: {why}", name=name, why=why)
            raise CannotTell(text, tried_by=tried_by) from error

    def stat_segment(self, shmid: int) -> Optional[Segment]:
        """One segment as it is now, by shmctl(IPC_STAT); None if the id does not exist any more.

        OSError (EACCES, EPERM) if this user may not look at it.
        """
        import ctypes  # Python has no binding of shmctl

        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(256)  # struct shmid_ds has 112 bytes
        if libc.shmctl(ctypes.c_int(shmid), ctypes.c_int(IPC_STAT), buffer) < 0:
            number = ctypes.get_errno()
            # EINVAL: no such id; EIDRM: it was removed meanwhile (shmctl(2)).
            if number in (errno.EINVAL, errno.EIDRM):
                return None
            raise OSError(number, os.strerror(number), f"shmid {shmid}")
        (key, uid, gid, cuid, cgid, mode, _seq, _pad, _u1, _u2, size, atime, dtime, ctime, cpid, lpid, nattch,
         _u3, _u4) = _SHMID_DS.unpack_from(buffer)  # fmt: skip
        return Segment(
            key & 0xFFFFFFFF, shmid, mode & 0xFFFF, size, cpid, lpid, nattch, uid, gid, cuid, cgid, atime,
            dtime, ctime,
        )  # fmt: skip
