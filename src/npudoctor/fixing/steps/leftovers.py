"""The steps that remove what dead processes left, or end them, as data: nothing takes them back."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.marks import FileMark, ProcessMark
from npudoctor.fixing.steps.shell import quote


@dataclass(frozen=True)
class RemoveSharedMemory:
    """Remove a System V segment by its id. Guard: still the same object, and nobody attached.

    `owner` is the uid whose thing it is; `dtime` is kept as the evidence of when its server died, and
    `log_device` and `log_inode` as that of which log is this server's, where it has one.
    """

    shmid: int
    key: int
    cpid: int
    ctime: int
    dtime: int
    size: int
    owner: int
    log_device: Optional[int] = None
    log_inode: Optional[int] = None

    def lines(self) -> tuple[str, ...]:
        return (f"ipcrm -m {self.shmid}",)


@dataclass(frozen=True)
class RemoveSocket:
    """Remove a stale socket file. Guard: same device, inode and mtime, still nobody listening. (A new
    server's socket on the same port can get the same inode, as was seen.)

    `port` is the cache server's. `after` are the segments (shmid) whose proof this file is:
    while one of them is still there, the file stays.
    """

    path: str
    device: int
    inode: int
    mtime_ns: int
    owner: int
    port: int
    after: tuple[int, ...] = ()

    def lines(self) -> tuple[str, ...]:
        return (f"rm -- {quote(self.path)}",)


@dataclass(frozen=True)
class RestoreSocket:
    """Give a socket file its name back, which a removal that was killed midway had taken."""

    path: str
    back_to: str
    device: int
    inode: int
    mtime_ns: int
    owner: int

    def lines(self) -> tuple[str, ...]:
        # -n: a server may have made a new socket under the name since.
        return (f"mv -n -- {quote(self.path)} {quote(self.back_to)}",)


@dataclass(frozen=True)
class RemoveFiles:
    """Remove known files of one directory, then the directory; never recursively.

    Guard: the directory and each file are still the same, unchanged, and nobody has one open.
    """

    directory: str
    device: int
    inode: int
    owner: int
    files: tuple[FileMark, ...]

    def lines(self) -> tuple[str, ...]:
        folder = self.directory.rstrip("/")
        # -- as a name may begin with a dash.
        removals = tuple(f"rm -- {quote(f'{folder}/{mark.name}')}" for mark in self.files)
        return (*removals, f"rmdir -- {quote(folder)}")


@dataclass(frozen=True)
class RemoveUnused:
    """Remove files of one directory, which stays.

    Guard: each is the same, unchanged, with one name, and a lease (F_SETLEASE) tells that nobody in the
    whole kernel has it open or mapped; those in /dev/shm are also proven orphaned once more by proof.shared.
    """

    directory: str
    owner: int
    files: tuple[FileMark, ...]

    def lines(self) -> tuple[str, ...]:
        folder = self.directory.rstrip("/")
        return tuple(f"rm -- {quote(f'{folder}/{mark.name}')}" for mark in self.files)


@dataclass(frozen=True)
class SignalProcess:
    """End processes of one owner: SIGTERM, a wait, and SIGKILL for those that are left. Nothing undoes it.

    Guard: each is still the same process in the same control groups, proven stale once more by proof.ending,
    and each child of one is among them. `processes` are in the order in which they are signalled: children
    before their parents. `seconds`: how long they have to end after either signal.
    """

    processes: tuple[ProcessMark, ...]
    owner: int
    seconds: float = 10.0

    def lines(self) -> tuple[str, ...]:
        pids = " ".join(str(mark.pid) for mark in self.processes)
        return (f"kill -TERM {pids}", f"sleep {self.seconds:g}; kill -KILL {pids}")
