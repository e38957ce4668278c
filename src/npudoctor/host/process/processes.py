"""The processes of the machine, read from /proc in one pass; details of one are read when asked for.

Not psutil: proofs need one look that says whether a descriptor was hidden from us, what threads hold whose
main thread has ended, and start times in the kernel's own ticks, by which a process is known. Of a process
that /proc hides its pid_exists() says that it is not there. A second list would disagree with this one.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from functools import cache
from typing import Callable, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.host.fs.files import Disk, PathStatus

_MAPPED = pattern(r"^\S+ \S+ \S+ \S+ (\d+)\s+/SYSV([0-9a-f]{8})", re.MULTILINE)
MAPS_LIMIT = 64 << 20
EXITING = 0x4  # PF_EXITING in the flags of /proc/PID/stat
TURN, PATIENCE = 0.02, 1.0  # seconds between two looks at one that is ending, and for all such looks


@dataclass(frozen=True)
class Process:
    """One process as /proc/PID/stat says. `started` counts clock ticks since boot; `uid` is its owner's.

    `cpu`: the clock ticks that it has used. `threads`: how many of it live; a zombie's may, without it.
    `group`: the pid of the process group's leader; 0 where that is not told. `exiting`: its main thread is
    about to end, or did.
    """

    pid: int
    name: str
    state: str
    parent: int
    session: int
    started: int
    uid: int
    cpu: int = 0
    threads: int = 1
    group: int = 0
    exiting: bool = False

    @property
    def gone(self) -> bool:
        """A zombie or a dead one: it runs no more and holds no memory, unless threads of it live on."""
        return self.headless and self.threads <= 1

    @property
    def headless(self) -> bool:
        """Its main thread has ended: what the others map and have open, only the folders of threads show."""
        return self.state in "ZXx"


def parse_stat(pid: int, text: str, uid: int) -> Process:
    """One process from /proc/PID/stat; the name may hold blanks and parentheses."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    parent, session, threads, started = (int(fields[number]) for number in (1, 3, 17, 19))
    cpu, name, group = int(fields[11]) + int(fields[12]), head.partition("(")[2], int(fields[2])
    exiting = bool(int(fields[6]) & EXITING)
    return Process(pid, name, fields[0], parent, session, started, uid, cpu, threads, group, exiting)


def parse_uids(status: bytes, row: bytes = b"Uid:") -> frozenset[int]:
    """The real, effective, saved and file system uid in a /proc/PID/status, or what else a row lists; empty
    where it has none.

    Split at "\\n" alone, as the name before it may hold a "\\r" and a forged line.
    """
    line = next((line for line in status.split(b"\n") if line.startswith(row)), b"")
    return frozenset(map(int, line.split()[1:]))


def parse_maps(text: str) -> dict[int, int]:
    """The SysV segments that a /proc/PID/maps shows: shmid (the inode column) to key, unsigned."""
    return {int(shmid): int(key, 16) for shmid, key in _MAPPED.findall(text)}


class Processes:
    """All processes that this pid namespace and our rights show."""

    def __init__(
        self,
        disk: Disk,
        ticks: int = 100,
        exists: Callable[[int], bool] = lambda pid: False,
        me: Optional[int] = None,
    ) -> None:
        self._disk = disk
        self._me = os.getpid() if me is None else me
        self.ticks = ticks
        self._exists = exists
        self._all: Optional[dict[int, Process]] = None
        self._details: dict[tuple[str, int], Optional[bytes]] = {}
        self._opened: Optional[dict[int, Optional[list[tuple[int, str]]]]] = None
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._patience = PATIENCE

    def all(self) -> dict[int, Process]:
        """Every process by pid, as they were at the first look."""
        with self._lock:
            if self._all is None:
                try:
                    names = self._disk.names("/proc")
                except OSError as error:
                    why = strerror(error.errno or 0)
                    raise CannotTell(_("{path} cannot be read: {why}", path="/proc", why=why)) from error
                processes = (self.now(int(name)) for name in names if name.isdigit())
                self._all = {process.pid: process for process in processes if process is not None}
            return self._all

    def now(self, pid: int) -> Optional[Process]:
        """One process as it is now; None when there is none."""
        try:
            owner: PathStatus = self._disk.lstat(f"/proc/{pid}")
            stat = self._disk.read(f"/proc/{pid}/stat", 1 << 16)
        except OSError:
            return None
        try:
            return parse_stat(pid, stat.decode("utf-8", "surrogateescape"), owner.uid)
        except (IndexError, ValueError):
            return None  # it ended while it was read

    def still_runs(self, pid: int) -> bool:
        """Whether it runs now: one that ended after it was listed uses nothing any more.

        One that is just ending hides its memory, its files and its control groups, and is waited for.
        """
        while True:
            process = self.now(pid)
            if process is None or process.gone:
                return False
            if self._patience <= 0 or not process.exiting:
                return True
            # Its main thread is about to end; where that has ended, all others must be.
            for task in self._threads(pid) if process.headless else ():
                try:
                    text = self._disk.read(f"/proc/{pid}/task/{task}/stat", 1 << 16)
                    if not parse_stat(pid, text.decode("utf-8", "replace"), 0).exiting:
                        return True
                except (OSError, IndexError, ValueError):
                    continue  # it ended while it was read
            time.sleep(TURN)
            self._patience -= TURN

    def hidden(self, pid: int) -> bool:
        """Whether a pid that /proc does not show is alive nevertheless (hidepid)."""
        return self.now(pid) is None and self._exists(pid)

    def ours(self) -> bool:
        """Whether this /proc shows our own pid namespace: else no pid in it means what we think."""
        try:
            return self._disk.readlink("/proc/self") == str(self._me)
        except OSError:
            return False

    @property
    def self_pid(self) -> int:
        """Our own pid, as this /proc counts."""
        try:
            return int(self._disk.readlink("/proc/self"))
        except (OSError, ValueError):
            return self._me

    def cgroups(self, pid: int) -> Optional[tuple[str, ...]]:
        """Its control groups, one path a hierarchy; None when that cannot be read."""
        content = self._detail("cgroup", pid, 1 << 16)
        if content is None:
            return None
        lines = content.decode("utf-8", "surrogateescape").split("\n")
        return tuple(line.split(":", 2)[2] for line in lines if line.count(":") >= 2)

    def owner(self, pid: int) -> Optional[int]:
        """The uid that it has in every respect, also where /proc calls its files root's; None when its uids
        differ (it may do what its user may not), or cannot be read."""
        uids = parse_uids(self._detail("status", pid, 1 << 16) or b"")
        return next(iter(uids)) if len(uids) == 1 else None

    def program(self, pid: int) -> Optional[str]:
        """The base name of its program, from exe, else from argv; "" for a kernel thread or a zombie.

        None when neither can be read.
        """
        path = self.exe(pid)
        if path is None:
            arguments = self.arguments(pid)
            if arguments is None:
                return None
            path = arguments[0] if arguments else ""
        return path.rsplit("/", 1)[-1]

    def exe(self, pid: int) -> Optional[str]:
        """The path of its program, without " (deleted)"; None when it cannot be read."""
        try:
            path = self._disk.readlink(f"/proc/{pid}/exe")
        except OSError:
            return None
        return path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path

    def arguments(self, pid: int) -> Optional[tuple[str, ...]]:
        """Its argv with empty fields kept; None when it cannot be read, empty for a kernel thread."""
        content = self._detail("cmdline", pid, 1 << 20)
        if content is None:
            return None
        fields = content.decode("utf-8", "surrogateescape").split("\0")
        return tuple(fields[:-1] if fields[-1] == "" else fields)

    def segments(self, pid: int) -> Optional[dict[int, int]]:
        """The SysV segments that it maps, shmid to key; None when that cannot be read."""
        if ("maps", pid) not in self._details:
            self._details["maps", pid] = self.maps(pid)
        content = self._details["maps", pid]
        return None if content is None else parse_maps(content.decode("utf-8", "replace"))

    def open_files(self, pid: int) -> Optional[list[tuple[int, str]]]:
        """Its descriptors and what they name; None when that, or one of them, cannot be read."""
        opened, whole = self._descriptors(pid, "fd")
        if opened and whole:
            return opened
        process = self.now(pid)
        if process is None or process.threads <= 1 or (opened is None and not process.headless):
            return opened
        # Its main thread ended, or just does, and has nothing open any more: the other threads have.
        opened = opened or []
        for task in self._threads(pid):
            more = self._descriptors(pid, f"task/{task}/fd")[0]
            if more is None:
                return None
            opened.extend(descriptor for descriptor in more if descriptor not in opened)
        return None if self._conceals(process) and not opened else opened

    def _descriptors(self, pid: int, folder: str) -> tuple[Optional[list[tuple[int, str]]], bool]:
        """Those of a folder of /proc/PID, and whether none of them was closed in between."""
        folder = f"/proc/{pid}/{folder}"
        try:
            numbers = self._disk.names(folder)
        except OSError as error:
            return ([] if isinstance(error, (FileNotFoundError, ProcessLookupError)) else None), False
        opened, whole = [], True
        for number in numbers:
            try:
                opened.append((int(number), self._disk.readlink(f"{folder}/{number}")))
            except (FileNotFoundError, ProcessLookupError):
                whole = False
            except OSError:
                # Open, and hidden from us: "nothing" would be a lie. But the first process of a hardened
                # machine hides its descriptors even from root, and it inherits none of anybody's.
                if pid != 1:
                    return None, whole
        return opened, whole

    def _threads(self, pid: int) -> list[str]:
        """Its threads but the main one."""
        try:
            return [name for name in self._disk.names(f"/proc/{pid}/task") if name != str(pid)]
        except OSError:
            return []

    def all_open(self) -> dict[int, Optional[list[tuple[int, str]]]]:
        """What every living process has open, as `open_files` says it; read once."""
        everybody = self.all()
        with self._opening:
            if self._opened is None:
                living = (pid for pid, process in everybody.items() if not process.gone)
                self._opened = {pid: self.open_files(pid) for pid in living}
            return self._opened

    def maps(self, pid: int) -> Optional[bytes]:
        """Its /proc/PID/maps, not kept; None when it cannot be read, or not to its end."""
        content = self._maps(f"/proc/{pid}/maps")
        if content:
            return content
        process = self.now(pid)
        if process is None or process.threads <= 1 or (content is None and not process.headless):
            return content
        # All threads of a process have the same memory, the main one only until it ends.
        for task in self._threads(pid):
            more = self._maps(f"/proc/{pid}/task/{task}/maps")
            if more:
                return more
        return None if self._conceals(process) else content

    def _conceals(self, process: Process) -> bool:
        """Whether threads outlive the main one, still: at the end of a process they all go at once."""
        return process.headless and self.still_runs(process.pid)

    def _maps(self, path: str) -> Optional[bytes]:
        try:
            content = self._disk.read(path, MAPS_LIMIT)
        except OSError:
            return None
        return content if len(content) < MAPS_LIMIT else None

    def variable(self, pid: int, name: str) -> Optional[str]:
        """A variable with which it was started; None when it has none, or that cannot be read."""
        content = self._detail("environ", pid, 1 << 20) or b""
        start = name.encode() + b"="
        value = next((entry for entry in content.split(b"\0") if entry.startswith(start)), None)
        return None if value is None else value[len(start) :].decode("utf-8", "surrogateescape")

    def mappers(self, shmid: int) -> list[int]:
        """The pids that map a segment, as far as our rights show them."""
        return [pid for pid in self.all() if shmid in (self.segments(pid) or {})]

    def ancestors(self, pid: int) -> Iterator[int]:
        """The pid itself and its parents up to the first process."""
        seen = set()
        everybody = self.all()
        while pid in everybody and pid not in seen:
            seen.add(pid)
            yield pid
            pid = everybody[pid].parent

    def _detail(self, name: str, pid: int, limit: int) -> Optional[bytes]:
        if (name, pid) not in self._details:
            try:
                self._details[name, pid] = self._disk.read(f"/proc/{pid}/{name}", limit)
            except OSError:
                self._details[name, pid] = None
        return self._details[name, pid]


@cache
def ticks_per_second() -> int:
    """The unit of a start time in /proc/PID/stat."""
    return os.sysconf("SC_CLK_TCK")


def pid_exists(pid: int) -> bool:
    """Whether kill(pid, 0) finds it; EPERM means that it lives and is another's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
