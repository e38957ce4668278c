"""Whether a temporary folder was left by processes that are gone; whatever cannot be seen makes it not so."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.messages import _
from npudoctor.facts.leftovers.sessions import is_kernel_thread
from npudoctor.facts.leftovers.temporary_folders import TempFolder
from npudoctor.host import CannotTell, Host
from npudoctor.host.process.processes import Process
from npudoctor.proof.creator import CLOCK_SLACK
from npudoctor.proof.shared_storage import why_shared
from npudoctor.proof.stale import why_blind
from npudoctor.proof.users import users_of_process

YOUNG = 600.0  # seconds below which nothing is said of a folder
MAKERS = ("python", "pypy", "torch", "pt_", "ray")  # programs and names of processes that make such folders
# Who takes in orphans (PR_SET_CHILD_SUBREAPER), besides the first process.
ADOPTERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "containerd-shim", "conmon", "slurmstepd")
EMBEDDED = b"libpython"  # what maps this is a Python by another name


class FolderMakers:
    """Judges the folders of one look by the processes of their owners that could have made them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._blind: Optional[str] = None
        self._eldest: dict[int, tuple[float, int]] = {}

    def why_not(self, folder: TempFolder) -> str:
        """Why a folder is not proven left behind; "" when it is."""
        if self._blind is None:
            self._blind = why_blind(self._host)
        shared = self._blind or why_shared(self._host, folder.path)
        return shared or self._why_in_use(folder) or self._why_maker_may_live(folder)

    def _why_in_use(self, folder: TempFolder) -> str:
        below = f"{folder.path}/"
        try:
            sockets = self._host.sockets.unix_paths()
        except CannotTell as error:
            return error.reason
        if any(path.startswith(below) for path in sockets):
            return _("a socket in it is in use")
        # The name is random: nobody else has a folder of that name.
        name = folder.path.rpartition("/")[2]
        for pid, opened in self._host.processes.open_files_by_pid().items():
            if pid == self._host.processes.self_pid:  # we hold the folder while we empty it
                continue
            # A mount of another place shows another path.
            if any(name in target.split("/") for _number, target in opened or ()):
                return _("process {pid} has it open", pid=pid)
            if opened is not None or is_kernel_thread(self._host, pid) or pid == 1:
                continue
            # Other users cannot pass a 0700 folder, and need not be readable; nor the kernel's own.
            process = self._host.processes.by_pid()[pid]
            may_pass = bool(folder.entry.mode & 0o077) or folder.entry.uid in users_of_process(
                self._host, process
            )
            if may_pass and self._host.processes.still_runs(pid):
                return _("cannot read the open files of process {pid}", pid=pid)
        return ""

    def _why_maker_may_live(self, folder: TempFolder) -> str:
        """Why its maker may live: a process that is as old as its last change; "" when none is.

        A process that began later is not its maker, nor its heir unless it is an orphan.
        """
        uid, changed = folder.entry.uid, folder.entry.ctime_ns / 1e9
        if self._host.clock.now() - changed < YOUNG:
            return _("it is only minutes old")
        eldest = self.find_older_process(uid, changed)
        return "" if eldest is None else _("process {pid} may have created it", pid=eldest)

    def find_older_process(self, uid: int, moment: float) -> Optional[int]:
        """The pid of a process of a user that could make such things and was running at a moment (epoch
        seconds); None when all began later.
        """
        if uid not in self._eldest:
            self._eldest[uid] = self._find_oldest(uid)
        began, pid = self._eldest[uid]
        return pid if began <= moment + CLOCK_SLACK else None

    def is_heir(self, pid: int) -> bool:
        """Return whether a process may have inherited what a parent that is gone knew: folders of
        multiprocessing, queues with names of files.

        An orphan is one, unless it leads its process group: so does what a shell, systemd or a container's
        runtime started as a program of its own.
        """
        process = self._host.processes.by_pid()[pid]
        if process.group == pid:
            return False
        parent = self._host.processes.by_pid().get(process.parent)
        return parent is None or parent.pid == 1 or parent.name.startswith(ADOPTERS)

    def _find_oldest(self, uid: int) -> tuple[float, int]:
        """When the oldest process of a user that could make such folders began (epoch seconds), and its pid;
        (inf, 0) without one.
        """
        host = self._host
        by_start = [
            (process.started, pid)
            for pid, process in host.processes.by_pid().items()
            if not process.has_exited
            and not is_kernel_thread(host, pid)
            and uid in users_of_process(host, process)
        ]
        # An heir counts however young it is.
        for _started, pid in by_start:
            if self.is_heir(pid) and _could_make(host, host.processes.by_pid()[pid]):
                return float("-inf"), pid
        for started, pid in sorted(by_start):
            if _could_make(host, host.processes.by_pid()[pid]):
                return host.system.boot_time() + started / host.processes.ticks, pid
        return float("inf"), 0


def _could_make(host: Host, process: Process) -> bool:
    if process.pid == host.processes.self_pid:
        return False
    program = host.processes.program(process.pid)
    # A program that cannot be read may be a Python.
    if program is None or program.startswith(MAKERS) or process.name.startswith(MAKERS):
        return True
    maps = host.processes.read_maps(process.pid)
    # The first process of a hardened machine hides itself even from root, and makes nothing of the kind.
    if maps is None:
        return process.pid != 1 and host.processes.still_runs(process.pid)
    return EMBEDDED in maps
