"""Where compile caches lie in this shell, and who holds the lock of a build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor import Host
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.job.working_directory import job_user, working_directory

ACL, ASCEND, MINDSPORE = "ACL_OP_COMPILER_CACHE_DIR", "ASCEND_CACHE_PATH", "MS_COMPILER_CACHE_PATH"
NAMES = (ACL, ASCEND, MINDSPORE)
LOCK = "build.lock"
MANY = 2000  # builds of operators whose locks are looked for


@dataclass(frozen=True)
class Cache:
    """One folder. `named_by`: the variable, or "" for the usual place. `builds`: whether locks lie in it."""

    path: str
    named_by: str
    builds: bool = False


def caches(host: Host) -> Iterator[Cache]:
    """The caches that a job of this shell would use; the usual places where they are there."""
    variables, home = host.variables, job_user(host).home.rstrip("/")
    first = next((name for name in (ACL, ASCEND) if variables.get(name)), None)
    if first is not None:
        yield Cache(variables[first], first)
    elif _there(host, f"{home}/atc_data") and installs_of(host):
        yield Cache(f"{home}/atc_data", "")
    if variables.get(MINDSPORE):
        yield Cache(variables[MINDSPORE], MINDSPORE, builds=True)
        return
    here = _here(host)
    place = f"{here.rstrip('/')}/kernel_meta"
    if here.startswith("/") and _there(host, place):
        yield Cache(place, "", builds=True)


def _here(host: Host) -> str:
    """The working directory; a shell's word for it where the process cannot be looked at."""
    try:
        here = working_directory(host)
    except CannotTell:
        here = None
    return here or host.variables.get("PWD", "")


def _there(host: Host, path: str) -> bool:
    """Whether a usual place is there; one that this user cannot look at is none of this user's caches."""
    try:
        return host.files.stat(path) is not None
    except CannotTell:
        return False


def locks(host: Host, cache: Cache) -> Iterator[str]:
    """The lock of each build in a cache: its real path."""
    real = host.files.real(cache.path)
    for name in host.files.names(real)[:MANY] if real else ():
        path = f"{real}/{name}/{LOCK}"
        if host.files.lstat(path) is not None:
            yield path


def held_by_nobody(host: Host, path: str, owner: int) -> Optional[bool]:
    """Whether no process has a lock or anything beside it open; None where that cannot be known.

    Its builder holds it open, and is its owner's: what others have open may stay hidden.
    """
    from npudoctor.proof.users import hidden  # only where there is a lock

    processes = host.processes
    if host.system.container() or not processes.ours():
        return None  # the folder may be another container's too, whose processes are not seen
    if next(hidden(host), None) is not None:
        return None  # by hidepid: what is not shown may be the builder
    folder, unseen = path.rpartition("/")[0], False
    inside = f"/{'/'.join(path.split('/')[-2:])}"  # as a container shows it that mounts the place elsewhere
    for pid, process in processes.all().items():
        opened = processes.open_files(pid)
        if any(
            f"{target}/".startswith(f"{folder}/") or target.endswith(inside)
            for _number, target in opened or ()
        ):
            return False
        unseen = unseen or (opened is None and process.uid == owner and not process.gone)
    return None if unseen else True
