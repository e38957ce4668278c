"""Whose a process is, what it hides from us, and who has a folder of spilled data open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_server import CONTAINER, SPILL, SpillFolder
from npudoctor.host import Host
from npudoctor.host.process.processes import Process, parse_uids


def users_of_process(host: Host, process: Process) -> frozenset[int]:
    """The uids that a process acts as.

    By its status: for a process that must not be dumped (sshd, ssh-agent) /proc gives its folder to root.
    """
    try:
        uids = parse_uids(host.disk.read(f"/proc/{process.pid}/status", 1 << 16))
    except OSError:
        uids = frozenset()
    return uids or frozenset((process.uid,))


def find_hidden(host: Host) -> Iterator[int]:
    """Yield processes that /proc names and does not show (hidepid=1), or the first one, which it must name
    unless it hides all that are not ours (hidepid=2).
    """
    shown = host.processes.by_pid()
    if 1 not in shown and host.processes.is_hidden(1):
        yield 1
    for name in host.disk.names("/proc"):
        if name.isdecimal() and int(name) not in shown and name != "1":
            try:
                host.disk.read(f"/proc/{name}/stat", 1)
            except (FileNotFoundError, ProcessLookupError):
                continue  # gone since
            except OSError:
                yield int(name)


def why_open(host: Host, folder: SpillFolder) -> Optional[str]:
    """Who has a file of the folder open, or why that is unknown; None when nobody has.

    Other users cannot enter a 0700 folder, so only its owner's processes must be readable.
    """
    processes = host.processes
    unreadable = _("cannot read the open files of process {pid}")
    for pid, process in processes.by_pid().items():
        if process.has_exited or pid == processes.self_pid:  # we hold the folder while we empty it
            continue
        opened = processes.open_files(pid)
        if (
            opened is None
            and folder.entry.uid in users_of_process(host, process)
            and processes.still_runs(pid)
        ):
            return unreadable.format(pid=pid)
        if any(_is_inside(host, folder, pid, number, target) for number, target in opened or ()):
            return _("process {pid} has it open", pid=pid)
    return next((unreadable.format(pid=pid) for pid in find_hidden(host)), None)


def _is_inside(host: Host, folder: SpillFolder, pid: int, number: int, target: str) -> bool:
    """Return whether the target of a descriptor lies in the folder, by its own path or by another mount's."""
    target = target[: -len(" (deleted)")] if target.endswith(" (deleted)") else target
    above, _slash, last = target.rpartition("/")
    if os.path.basename(folder.path) in target.split("/"):
        return True
    # A file with a name of ours in a spill folder of another name is another server's.
    if not CONTAINER.match(last) or SPILL.match(os.path.basename(above)):
        return False
    # A mount of the folder itself shows its containers below whatever it is mounted at.
    inode: Optional[int] = None  # which the kernel (before 5.14) does not tell
    # The descriptor was closed since.
    with suppress(OSError):
        text = host.disk.read(f"/proc/{pid}/fdinfo/{number}", 1 << 16).decode("ascii", "replace")
        line = next((line for line in text.splitlines() if line.startswith("ino:")), "")
        inode = int(line.split()[1]) if line else None
    return inode in (None, *(file.ino for _name, file in folder.files))
