"""Whether a file of shared memory is used, is proven left behind, or cannot be told; and by what."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.sessions import KERNEL
from npudoctor.facts.leftovers.shm_files import SharedFile
from npudoctor.host import Host
from npudoctor.host.process.processes import Process
from npudoctor.proof.creator import Life, creator_life
from npudoctor.proof.stale import why_blind
from npudoctor.proof.users import find_hidden, users_of_process

YOUNG = 600.0  # seconds below which its name may still be on its way to the process that will open it


@dataclass(frozen=True)
class SharedFileState:
    """One file. `users`: who maps it or has it open. `lives`: its maker does. `unseen`: not all who could
    use it can be looked into. `why`: what is missing in the proof that it was left behind, "" when nothing.
    `creator_state`: what is known of its maker. `young`: nothing is said of it yet."""

    file: SharedFile
    users: tuple[int, ...] = ()
    lives: bool = False
    unseen: bool = False
    why: str = ""
    creator_state: str = ""
    young: bool = False

    @property
    def in_use(self) -> bool:
        return bool(self.users) or self.lives

    @property
    def proven(self) -> bool:
        return not self.in_use and not self.why


def judge_shared_files(host: Host, files: Sequence[SharedFile]) -> list[SharedFileState]:
    """Judge all files at once: the processes are read only once, and only when there is a file."""
    if not files:
        return []
    usage = FileUsage(host, {file.entry.dev for file in files})
    blind_reason = why_blind(host)
    concealed = blind_reason if next(find_hidden(host), None) is not None else ""
    return [_judge_file(host, file, usage, blind_reason, concealed) for file in files]


def _judge_file(
    host: Host, file: SharedFile, usage: FileUsage, why_blind: str, concealed: str
) -> SharedFileState:
    pids = usage.of(file)
    if pids:
        return SharedFileState(file, pids)
    since = file.entry.ctime_ns / 1e9
    made = None
    if file.pid is not None:
        # Only a process of the job may have made such a file.
        made = creator_life(host, file.pid, since, lambda program: program.startswith(("python", "torch")))
    unseen = usage.why_unseen(file) or concealed
    missing = (
        unseen,
        why_blind,
        usage.elsewhere(file),
        "" if made else _("its name does not contain its creator's pid"),
        made.why if made and made.life is not Life.DEAD else "",
        "" if file.entry.nlink == 1 else _("it has {count} hard links", count=file.entry.nlink),
    )
    young = host.clock.now() - since < YOUNG
    why = next(filter(None, missing), _("it is only minutes old") if young else "")
    lives = made is not None and made.life is Life.ALIVE
    return SharedFileState(file, (), lives, bool(unseen), why, made.why if made else "", young)


class FileUsage:
    """Who maps files of some devices, and who has which open: one pass over all processes."""

    def __init__(self, host: Host, devices: Iterable[int]) -> None:
        self._host = host
        self._mapped: dict[tuple[int, int], set[int]] = {}
        self._opened: dict[str, set[int]] = {}
        self._opaque: dict[int, Process] = {}
        self._spaces: dict[int, Optional[str]] = {}
        self._users: dict[int, frozenset[int]] = {}
        self._said: dict[tuple[object, ...], str] = {}
        marks = {device: f" {os.major(device):02x}:{os.minor(device):02x} ".encode() for device in devices}
        opened = host.processes.open_files_by_pid()
        for pid, process in host.processes.by_pid().items():
            if process.has_exited or KERNEL in (pid, process.parent) or pid == host.processes.self_pid:
                continue
            maps, targets = host.processes.read_maps(pid), opened.get(pid)
            # The first process of a hardened machine hides itself even from root, and maps nobody's memory.
            if pid != 1 and (maps is None or targets is None) and host.processes.still_runs(pid):
                self._opaque[pid] = process
            for _number, target in targets or ():
                if target.startswith("/"):
                    # The kernel appends it to the target of a file that was unlinked.
                    name = target.removesuffix(" (deleted)").rpartition("/")[2]
                    self._opened.setdefault(name, set()).add(pid)
            for key in _mappings(maps or b"", marks):
                self._mapped.setdefault(key, set()).add(pid)

    def of(self, file: SharedFile) -> tuple[int, ...]:
        """The pids of who maps it, or has a file of its name open: a mount elsewhere shows another path."""
        # Device and inode of the mapping: the name in the maps may be gone or another mount's.
        mapped = self._mapped.get((file.entry.dev, file.entry.ino), set())
        return tuple(sorted(mapped | self._opened.get(file.name, set())))

    def why_unseen(self, file: SharedFile) -> str:
        """Why it is not certain that nobody uses it; "" when it is."""
        # The answer depends only on the owner and on whether others may open it: files share it.
        key = ("unseen", *_possible_users(file))
        if key not in self._said:
            why = ""
            for pid, process in self._opaque.items():
                if self._may_open(process, file):
                    why = _(
                        "cannot read the memory maps of process {pid} ({program})",
                        pid=pid,
                        program=process.name,
                    )
                    break
            self._said[key] = why
        return self._said[key]

    def elsewhere(self, file: SharedFile) -> str:
        """Which process in another pid namespace shares the place: a pid in a name may be one of theirs. ""
        without such.
        """
        key = ("elsewhere", file.entry.dev, *_possible_users(file))
        if key not in self._said:
            self._said[key] = self._find_elsewhere(file)
        return self._said[key]

    def _find_elsewhere(self, file: SharedFile) -> str:
        ours = self._host.system.namespace("pid")
        for pid, process in self._host.processes.by_pid().items():
            if process.has_exited or KERNEL in (pid, process.parent) or not self._may_open(process, file):
                continue
            space = self._host.system.namespace("pid", str(pid))
            if space != ours and self._host.processes.still_runs(pid) and self._shares_device(pid, file):
                return _(
                    "process {pid} ({program}) in another pid namespace shares /dev/shm",
                    pid=pid,
                    program=process.name,
                )
        return ""

    def _may_open(self, process: Process, file: SharedFile) -> bool:
        """Return whether the mode lets a process open it; root's processes are left out, as they may open
        everything.
        """
        uid, shared = _possible_users(file)
        if not shared and process.pid not in self._users:
            self._users[process.pid] = users_of_process(self._host, process)
        return shared or uid in self._users[process.pid]

    def _shares_device(self, pid: int, file: SharedFile) -> bool:
        """Return whether its mounts include the file's device, or cannot be read."""
        if pid not in self._spaces:
            try:
                table = self._host.disk.read(f"/proc/{pid}/mountinfo", 4 << 20)
                self._spaces[pid] = table.decode("utf-8", "replace")
            # It ended, or is another user's.
            except OSError:
                self._spaces[pid] = None
        mount_table = self._spaces[pid]
        device = f" {os.major(file.entry.dev)}:{os.minor(file.entry.dev)} "
        return mount_table is None or device in mount_table


def _possible_users(file: SharedFile) -> tuple[int, bool]:
    """(uid of its owner, whether others may use it too)."""
    return file.entry.uid, bool(file.entry.mode & 0o077)


def _mappings(maps: bytes, marks: dict[int, bytes]) -> Iterator[tuple[int, int]]:
    """Yield (device, inode) of each mapping of a file on one of the devices."""
    for device, mark in marks.items():
        if mark in maps:
            for line in maps.split(b"\n"):
                if mark in line:
                    yield device, int(line.split(None, 5)[4])
