"""Reads the processes of the machine from /proc in one pass, and details of one when they are needed.

Not by psutil: proofs need to know whether a descriptor was hidden from us, what the threads hold of a process
whose main thread has ended, and start times in the kernel's ticks, which identify a process. Its pid_exists()
says False for a process that /proc hides. And a second list of processes would disagree with this one.
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

# A row of maps for a segment: address, rights, offset, device, shmid, and the name /SYSV with the key in hex.
_SYSV_MAPPING = pattern(r"^\S+ \S+ \S+ \S+ (\d+)\s+/SYSV([0-9a-f]{8})", re.MULTILINE)
# A process with so many mappings is not judged: its maps are treated as unreadable.
MAPS_LIMIT = 64 << 20
PF_EXITING = 0x4  # PF_EXITING in the flags of /proc/PID/stat
EXIT_POLL_SECONDS, EXIT_WAIT_SECONDS = (
    0.02,
    1.0,
)  # seconds between two looks at one that is ending, and for all such looks


@dataclass(frozen=True)
class Process:
    """One process as /proc/PID/stat describes it.

    - `started`: clock ticks since boot; with the pid it identifies a process.
    - `uid`: the owner of /proc/PID.
    - `cpu`: the clock ticks of CPU time that it has used.
    - `threads`: how many of its threads live; those of a zombie may live on without the main one.
    - `group`: the pid of the leader of its process group, 0 if unknown.
    - `is_exiting`: its main thread is about to end, or has ended.
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
    is_exiting: bool = False

    @property
    def has_exited(self) -> bool:
        """Whether it is a zombie or dead, and no thread of it lives on: it holds no memory and no files."""
        return self.has_lost_main_thread and self.threads <= 1

    @property
    def has_lost_main_thread(self) -> bool:
        """Whether its main thread has ended; what other threads hold is then only in /proc/PID/task/TID."""
        # Z: zombie; X: dead, x: the same in Linux 2.6.33 to 3.13 (proc(5)).
        return self.state in "ZXx"


def parse_stat(pid: int, text: str, uid: int) -> Process:
    """Parse /proc/PID/stat; the name may contain blanks and parentheses, so fields count from the last ")".

    IndexError or ValueError if it was cut short.
    """
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    parent, session, threads, started = (int(fields[number]) for number in (1, 3, 17, 19))
    cpu, name, group = int(fields[11]) + int(fields[12]), head.partition("(")[2], int(fields[2])
    exiting = bool(int(fields[6]) & PF_EXITING)
    return Process(pid, name, fields[0], parent, session, started, uid, cpu, threads, group, exiting)


def parse_uids(status: bytes, row: bytes = b"Uid:") -> frozenset[int]:
    """The distinct numbers in a row of /proc/PID/status: for Uid the real, effective, saved and file system
    uid. Empty if there is no such row.

    Lines are split at "\\n" alone: the name of the process may contain a "\\r" and a forged row after it.
    """
    line = next((line for line in status.split(b"\n") if line.startswith(row)), b"")
    return frozenset(map(int, line.split()[1:]))


def parse_maps(text: str) -> dict[int, int]:
    """The SysV segments in a /proc/PID/maps: shmid (in the column of the inode) to key, unsigned."""
    return {int(shmid): int(key, 16) for shmid, key in _SYSV_MAPPING.findall(text)}


class Processes:
    """All processes that this pid namespace and our rights show; every fact is read once and kept.

    `ticks`: clock ticks per second. `exists(pid)`: whether a pid is alive, also if /proc hides it. `own_pid`:
    ours, None for os.getpid().
    """

    def __init__(
        self,
        disk: Disk,
        ticks: int = 100,
        exists: Callable[[int], bool] = lambda pid: False,
        own_pid: Optional[int] = None,
    ) -> None:
        self._disk = disk
        self._own_pid = os.getpid() if own_pid is None else own_pid
        self.ticks = ticks
        self._exists = exists
        self._process_by_pid: Optional[dict[int, Process]] = None
        self._details: dict[tuple[str, int], Optional[bytes]] = {}
        self._open_files_by_pid: Optional[dict[int, Optional[list[tuple[int, str]]]]] = None
        self._lock, self._open_files_lock = threading.Lock(), threading.Lock()
        self._wait_seconds_left = EXIT_WAIT_SECONDS

    def by_pid(self) -> dict[int, Process]:
        """Every process by its pid, as of the first call."""
        with self._lock:
            if self._process_by_pid is None:
                try:
                    names = self._disk.names("/proc")
                except OSError as error:
                    why = strerror(error.errno or 0)
                    raise CannotTell(_("{path} cannot be read: {why}", path="/proc", why=why)) from error
                processes = (self.read_now(int(name)) for name in names if name.isdigit())
                self._process_by_pid = {process.pid: process for process in processes if process is not None}
            return self._process_by_pid

    def read_now(self, pid: int) -> Optional[Process]:
        """One process as it is now; None if it does not exist."""
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
        """Whether a process runs now: it may have ended since it was listed.

        A process that is just ending shows no memory, no files and no control groups although it still holds
        them. It is waited for, EXIT_WAIT_SECONDS for all processes together.
        """
        while True:
            process = self.read_now(pid)
            if process is None or process.has_exited:
                return False
            if self._wait_seconds_left <= 0 or not process.is_exiting:
                return True
            # Its main thread is about to end or has ended. The process ends only if all other threads do.
            for task in self._other_threads(pid) if process.has_lost_main_thread else ():
                try:
                    text = self._disk.read(f"/proc/{pid}/task/{task}/stat", 1 << 16)
                    if not parse_stat(pid, text.decode("utf-8", "replace"), 0).is_exiting:
                        return True
                except (OSError, IndexError, ValueError):
                    continue  # it ended while it was read
            time.sleep(EXIT_POLL_SECONDS)
            self._wait_seconds_left -= EXIT_POLL_SECONDS

    def is_hidden(self, pid: int) -> bool:
        """Whether a pid is alive although /proc does not show it (mounted with hidepid, proc(5))."""
        return self.read_now(pid) is None and self._exists(pid)

    def is_own_namespace(self) -> bool:
        """Whether this /proc shows our own pid namespace; if not, its pids are not those that we signal."""
        try:
            return self._disk.readlink("/proc/self") == str(self._own_pid)
        except OSError:
            return False

    @property
    def self_pid(self) -> int:
        """Our own pid in the pid namespace that this /proc shows."""
        try:
            return int(self._disk.readlink("/proc/self"))
        except (OSError, ValueError):
            return self._own_pid

    def cgroups(self, pid: int) -> Optional[tuple[str, ...]]:
        """The control groups of a process, one path for each hierarchy; None if they cannot be read."""
        content = self._read_detail("cgroup", pid, 1 << 16)
        if content is None:
            return None
        # A row is hierarchy:controllers:path (cgroups(7)); the path may contain colons.
        lines = content.decode("utf-8", "surrogateescape").split("\n")
        return tuple(line.split(":", 2)[2] for line in lines if line.count(":") >= 2)

    def owner(self, pid: int) -> Optional[int]:
        """The uid of a process, from its status: the files in /proc/PID may be root's for anybody's process.

        None if its uids differ, as it then has rights that its user lacks, or if they cannot be read.
        """
        # Real, effective, saved and file system uid.
        uids = parse_uids(self._read_detail("status", pid, 1 << 16) or b"")
        return next(iter(uids)) if len(uids) == 1 else None

    def program(self, pid: int) -> Optional[str]:
        """The base name of a process's program, from exe, else from argv; "" for a kernel thread or a zombie.

        None if neither can be read.
        """
        path = self.exe(pid)
        if path is None:
            arguments = self.arguments(pid)
            if arguments is None:
                return None
            path = arguments[0] if arguments else ""
        return path.rsplit("/", 1)[-1]

    def exe(self, pid: int) -> Optional[str]:
        """The path of a process's program, without " (deleted)"; None if it cannot be read."""
        try:
            path = self._disk.readlink(f"/proc/{pid}/exe")
        except OSError:
            return None
        return path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path

    def arguments(self, pid: int) -> Optional[tuple[str, ...]]:
        """The argv of a process, with empty fields; None if it cannot be read, empty for a kernel thread."""
        content = self._read_detail("cmdline", pid, 1 << 20)
        if content is None:
            return None
        fields = content.decode("utf-8", "surrogateescape").split("\0")
        return tuple(fields[:-1] if fields[-1] == "" else fields)

    def segments(self, pid: int) -> Optional[dict[int, int]]:
        """The SysV segments that a process maps, shmid to key; None if they cannot be read."""
        if ("maps", pid) not in self._details:
            self._details["maps", pid] = self.read_maps(pid)
        content = self._details["maps", pid]
        return None if content is None else parse_maps(content.decode("utf-8", "replace"))

    def open_files(self, pid: int) -> Optional[list[tuple[int, str]]]:
        """The descriptors of a process, with what each refers to; None if one of them cannot be read."""
        descriptors, is_complete = self._read_descriptors(pid, "fd")
        if descriptors and is_complete:
            return descriptors
        process = self.read_now(pid)
        if (
            process is None
            or process.threads <= 1
            or (descriptors is None and not process.has_lost_main_thread)
        ):
            return descriptors
        # Its main thread has ended or is ending, and shows no descriptors any more: the other threads do.
        descriptors = descriptors or []
        for task in self._other_threads(pid):
            thread_descriptors = self._read_descriptors(pid, f"task/{task}/fd")[0]
            if thread_descriptors is None:
                return None
            descriptors.extend(
                descriptor for descriptor in thread_descriptors if descriptor not in descriptors
            )
        return None if self._has_living_threads(process) and not descriptors else descriptors

    def _read_descriptors(self, pid: int, folder: str) -> tuple[Optional[list[tuple[int, str]]], bool]:
        """The descriptors in a folder of /proc/PID, None if unreadable; whether none vanished meanwhile."""
        folder = f"/proc/{pid}/{folder}"
        try:
            numbers = self._disk.names(folder)
        except OSError as error:
            return ([] if isinstance(error, (FileNotFoundError, ProcessLookupError)) else None), False
        descriptors, is_complete = [], True
        for number in numbers:
            try:
                descriptors.append((int(number), self._disk.readlink(f"{folder}/{number}")))
            except (FileNotFoundError, ProcessLookupError):
                is_complete = False
            except OSError:
                # Open but hidden from us: it could be anything. Only process 1 is passed over: on a hardened
                # machine it hides its descriptors even from root, and it inherits nobody's.
                if pid != 1:
                    return None, is_complete
        return descriptors, is_complete

    def _other_threads(self, pid: int) -> list[str]:
        """The thread ids of a process except that of its main thread."""
        try:
            return [name for name in self._disk.names(f"/proc/{pid}/task") if name != str(pid)]
        except OSError:
            return []

    def open_files_by_pid(self) -> dict[int, Optional[list[tuple[int, str]]]]:
        """The open files of every living process, as of `open_files`; read once."""
        process_by_pid = self.by_pid()
        with self._open_files_lock:
            if self._open_files_by_pid is None:
                living = (pid for pid, process in process_by_pid.items() if not process.has_exited)
                self._open_files_by_pid = {pid: self.open_files(pid) for pid in living}
            return self._open_files_by_pid

    def read_maps(self, pid: int) -> Optional[bytes]:
        """The /proc/PID/maps of a process, not kept; None if it cannot be read, or not to its end."""
        content = self._read_whole_maps(f"/proc/{pid}/maps")
        if content:
            return content
        process = self.read_now(pid)
        if process is None or process.threads <= 1 or (content is None and not process.has_lost_main_thread):
            return content
        # All threads share one memory; after the main thread has ended, only maps of the others show it.
        for task in self._other_threads(pid):
            thread_maps = self._read_whole_maps(f"/proc/{pid}/task/{task}/maps")
            if thread_maps:
                return thread_maps
        return None if self._has_living_threads(process) else content

    def _has_living_threads(self, process: Process) -> bool:
        """Whether threads live on without the main one; when a process ends, they all end at once."""
        return process.has_lost_main_thread and self.still_runs(process.pid)

    def _read_whole_maps(self, path: str) -> Optional[bytes]:
        try:
            content = self._disk.read(path, MAPS_LIMIT)
        except OSError:
            return None
        return content if len(content) < MAPS_LIMIT else None

    def variable(self, pid: int, name: str) -> Optional[str]:
        """A variable with which a process was started; None if it has none, or if they cannot be read."""
        content = self._read_detail("environ", pid, 1 << 20) or b""
        start = name.encode() + b"="
        value = next((entry for entry in content.split(b"\0") if entry.startswith(start)), None)
        return None if value is None else value[len(start) :].decode("utf-8", "surrogateescape")

    def mappers(self, shmid: int) -> list[int]:
        """The pids that map a segment, as far as our rights show them: a process whose maps cannot be read
        is not among them."""
        return [pid for pid in self.by_pid() if shmid in (self.segments(pid) or {})]

    def ancestors(self, pid: int) -> Iterator[int]:
        """The pid itself and its ancestors, up to process 1."""
        visited = set()
        process_by_pid = self.by_pid()
        while pid in process_by_pid and pid not in visited:
            visited.add(pid)
            yield pid
            pid = process_by_pid[pid].parent

    def _read_detail(self, name: str, pid: int, limit: int) -> Optional[bytes]:
        if (name, pid) not in self._details:
            try:
                self._details[name, pid] = self._disk.read(f"/proc/{pid}/{name}", limit)
            except OSError:
                self._details[name, pid] = None
        return self._details[name, pid]


@cache
def ticks_per_second() -> int:
    """Clock ticks per second, the unit of start times in /proc/PID/stat; 100 on all current kernels."""
    return os.sysconf("SC_CLK_TCK")


def pid_exists(pid: int) -> bool:
    """Whether a pid is alive, by kill(2) with signal 0; EPERM means that it lives and is another user's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
