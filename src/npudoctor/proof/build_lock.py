"""Whether the build that made a lock file is still running."""

from __future__ import annotations

from typing import Optional

from npudoctor.host import Host
from npudoctor.proof.users import find_hidden


def is_lock_unused(host: Host, path: str, owner: int) -> Optional[bool]:
    """Return whether no process has the lock at `path`, or anything beside it, open; None where that is
    unknown.

    The build holds it open and runs as the lock's `owner` (a uid): what others have open may stay hidden.
    """
    processes = host.processes
    if host.system.is_container() or not processes.is_own_namespace():
        return None  # the folder may be another container's too, whose processes are not seen
    if next(find_hidden(host), None) is not None:
        return None  # by hidepid: what is not shown may be the builder
    folder, unseen = path.rpartition("/")[0], False
    inside = f"/{'/'.join(path.split('/')[-2:])}"  # as a container shows it that mounts the place elsewhere
    for pid, process in processes.by_pid().items():
        # None: this user may not read its descriptors.
        opened = processes.open_files(pid)
        if any(
            f"{target}/".startswith(f"{folder}/") or target.endswith(inside)
            for _number, target in opened or ()
        ):
            return False
        unseen = unseen or (opened is None and process.uid == owner and processes.still_runs(pid))
    return None if unseen else True
