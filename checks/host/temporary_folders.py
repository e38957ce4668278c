"""May the job write to /tmp, TMPDIR and /dev/shm?"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Optional, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Unknown,
    _,
    check,
)
from npudoctor.core.errors import CannotTell, has_ended
from npudoctor.core.frozen import dataclass
from npudoctor.core.mounts import Mount
from npudoctor.facts.job.working_directory import foreign_user, job_user
from npudoctor.facts.system.mounts import mount_at
from npudoctor.host.fs.files import PathStatus
from npudoctor.host.users.access import first_barrier, may_create_in, nearest_folder
from npudoctor.host.users.accounts import user_names

TMP, SHM = "/tmp", "/dev/shm"  # noqa: S108  (looked at, never written)
CACHE = ("MS_CACHE_HOST", "MS_CACHE_PORT")
WHEELS = ("mindspore", "mindspore-ascend", "mindspore-gpu")
OPEN = 0o1777
TRIED_BY = ("trial-files", "trial-shared-memory")  # which make files there


@check(
    "temporary-folders",
    scope=Scope.JOB,
    tags={"files"},
    codes={
        "temporary-folders.not-writable": ERROR,
        "temporary-folders.mindspore-closed": ERROR,
    },
)
def temporary_folders(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This user can write to /tmp, TMPDIR and /dev/shm.

    ## What it does

    Reads the owner, mode and mount of /tmp, /dev/shm and the folder that TMPDIR names, without writing to
    them. The checks `disk-space` and `shm-size` report how much space they have, and `shm-size` reports a
    missing /dev/shm.

    - `temporary-folders.not-writable`: the folder is missing, is on a file system that is mounted read-only,
      or its mode does not let this user write. This is an error for /tmp and /dev/shm. It is a warning for
      TMPDIR, because most programs then use /tmp, and for /tmp when TMPDIR names a writable folder.
    - `temporary-folders.mindspore-closed`: /tmp/mindspore belongs to another user, and this user may not
      enter it: the dataset cache server of MindSpore creates it with mode 0700 for the user who starts the
      first one. This is an error when MS_CACHE_HOST or MS_CACHE_PORT says that this job uses a cache server.
      Otherwise it is a warning, and only where MindSpore is installed.

    If the mode does not decide (an access control list, a file server), the kernel is asked, as access(2)
    does. For a process of another user (`--env-of`) that is not possible, and the result is unknown. Quotas
    are not visible.

    ## Why it matters

    Semaphores and shared tensors of Python's multiprocessing are files in /dev/shm: if it is not writable, a
    data loader with workers ends with `OSError: [Errno 30] Read-only file system` or `PermissionError`. The
    sockets of multiprocessing, the rendezvous of launchers and the files of compilers are in TMPDIR or in
    /tmp. If /tmp/mindspore belongs to another user, `dataset-cache --start` reports that the server has
    started, but the server ends at once.

    ## Fix safety

    Shown only. A file system that the kernel made read-only after an error must be repaired first. A
    container gets its mounts when it is started. Never remove another user's /tmp/mindspore: the socket in it
    may belong to a running server.

    ## References

    - Python, tempfile: the folders that are tried; shm_overview(7), sem_overview(7).
    - MindSpore, single-node data cache: /tmp/mindspore.
    """
    named, own, silent = host.variables.get("TMPDIR", ""), None, None
    if named.startswith("/") and named.rstrip("/") != TMP:
        try:
            own = _look(host, named)
        except CannotTell as error:
            silent = error
    folders = {TMP: _look(host, TMP), SHM: _look(host, SHM)}
    if not folders[SHM].there:
        del folders[SHM]  # shm-size says so
    shown = [*folders.values(), *([own] if own else [])]
    yield Facts({folder.path: {"writable": folder.writable} for folder in shown})
    for folder in folders.values():
        instead = folder.path == TMP and own is not None and own.writable is True
        if folder.writable is False:
            yield _not_writable(host, folder, WARNING if instead else ERROR)
    if own is not None and own.writable is False:
        yield _not_writable(host, own, WARNING, variable="TMPDIR")
    if folders[TMP].writable is not False:
        yield from _judge_mindspore(host, f"{TMP}/mindspore")
    if silent is not None:
        raise Unknown(silent.reason, tried_by=TRIED_BY) from silent
    _expect_known(host, folders.values())


@dataclass(frozen=True)
class JobFolder:
    """A folder. `entry`: what is there, None where nothing is or it cannot be looked at. `closed`: the folder
    above it that this user may not enter. `gone`: why nothing of it can be used. `writable`: None where that
    cannot be told."""

    path: str
    there: bool
    writable: Optional[bool]
    entry: Optional[PathStatus] = None
    mount: Optional[Mount] = None
    closed: str = ""
    gone: str = ""


def _look(host: Host, path: str) -> JobFolder:
    """What can be seen of a folder; CannotTell where what holds it gives no answer."""
    foreign = foreign_user(host)
    try:
        place = nearest_folder(host.running_files, path)
        shut = first_barrier(host.files, place.path, foreign) if foreign else None
    except CannotTell as error:
        if has_ended(error):
            return JobFolder(path, True, False, gone=error.reason)
        if not isinstance(error.__cause__, PermissionError):
            raise
        return JobFolder(path, True, False, closed=path.rpartition("/")[0] or "/")
    if shut is not None:
        return JobFolder(path, True, False, closed=shut)
    if not place.exists:
        return JobFolder(path, False, False)
    mount = mount_at(host, place)
    writable = may_create_in(place.entry, job_user(host), mount)
    if writable is None and foreign is None:  # an access list, or a server: the kernel knows
        writable = host.disk.may_access(host.running_files.real(path) or path, os.W_OK | os.X_OK)
    return JobFolder(path, True, writable, place.entry, mount)


def _expect_known(host: Host, folders: Iterable[JobFolder]) -> None:
    """Unknown where it cannot be told whether the job's user may write to one of them."""
    for place in folders:
        if place.writable is None:
            raise Unknown(
                _(
                    "could not determine whether {user} can write to {path}: it may have an access control "
                    "list",
                    user=job_user(host).user,
                    path=place.path,
                ),
                tried_by=TRIED_BY,
            )


def _not_writable(host: Host, place: JobFolder, severity: Severity, variable: str = "") -> Finding:
    """A folder that this user may not write to, and why."""
    words = {
        "path": f"{variable}={place.path}" if variable else place.path,
        "user": job_user(host).user,
        "mount": place.mount.point if place.mount else "",
        "closed": place.closed,
        "why": place.gone,
    }
    if place.entry is not None:
        words["owner"] = _name(host, place.entry.uid)
        words["mode"] = f"{place.entry.permissions:04o}"
    if place.gone:
        why = _("{user} cannot write to {path}: {why}")
    elif place.closed:
        why = _("{user} cannot write to {path}: this user cannot enter {closed}")
    elif place.entry is None:
        why = _("{user} cannot write to {path}: it does not exist")
    elif not place.entry.is_dir:
        why = _("{user} cannot write to {path}: it is not a folder")
    elif place.mount is not None and place.mount.read_only:
        why = _("{user} cannot write to {path}: {mount} is mounted read-only")
    else:
        why = _("{user} cannot write to {path}: it belongs to {owner}, mode {mode}")
    evidence: tuple[str, ...]
    if place.entry is None:
        evidence = ()
    else:
        entry, mount = place.entry, place.mount
        line = f"{place.path} uid={entry.uid} gid={entry.gid} mode={stat.filemode(entry.mode)}"
        options = ",".join(dict.fromkeys((*mount.own, *mount.options))) if mount else ""
        evidence = (line, f"{mount.point} {mount.kind} {options}") if mount else (line,)
    return Finding(
        "temporary-folders.not-writable",
        why.format(**words),
        severity=severity,
        evidence=evidence,
        action=Action.CONFIG,
        fix=_fix(host, place, variable),
        # Where the trial asked the kernel itself, it knows.
        echo_of=("trial-shared-memory.refused" if place.path == SHM else "trial-files.cannot-write",),
    )


def _fix(host: Host, place: JobFolder, variable: str) -> Optional[Fix]:
    """A line for root where one folder of this machine wants another mode; else who must do what."""
    if variable:
        steps = (Command(("unset", variable)),)
        title = _("use /tmp instead, in the shell that starts the job")
        return Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=False)
    if place.gone:
        return None
    if place.mount is not None and place.mount.read_only:
        if host.system.is_container():
            return Fix(
                _(
                    "ask whoever starts the container to provide a writable {path}: --tmpfs {path}",
                    path=place.path,
                ),
                risk=Risk.MANUAL,
            )
        commands = (Command(("mount", "-o", "remount,rw", place.mount.point)),)
        heading = _("remount it writable once `dmesg` shows no errors for that file system")
        return Fix(heading, steps=commands, risk=Risk.MANUAL)
    if place.entry is None:
        steps = (Command(("mkdir", "-m", f"{OPEN:o}", place.path)),)
        return Fix(_("create the folder"), steps=steps, risk=Risk.MANUAL)
    if not place.entry.is_dir:
        return None
    return Fix(
        _("let everyone write to it but remove only their own files"),
        steps=(Command(("chmod", f"{OPEN:o}", place.path)),),
        undo=Command(("chmod", f"{place.entry.permissions:o}", place.path)).lines(),
        risk=Risk.MANUAL,
    )


def _judge_mindspore(host: Host, path: str) -> Iterator[Finding]:
    """The folder of MindSpore's cache servers, where its owner keeps this user out."""
    named = [name for name in CACHE if host.variables.get(name)]
    closed = _find_closed(host, path)
    try:
        concerned = bool(named) or any(host.interpreter.version_of(name) for name in WHEELS)
    except CannotTell:
        concerned = False
    if closed is None or not concerned:
        return
    owner = _name(host, closed.uid)
    title = _("ask {owner} to remove {path} once no cache server uses it", owner=owner, path=path)
    yield Finding(
        "temporary-folders.mindspore-closed",
        _(
            "{user} cannot start a dataset cache server: {path} belongs to {owner}, mode {mode}; "
            "`dataset-cache --start` reports success, but the server exits immediately",
            user=job_user(host).user,
            path=path,
            owner=owner,
            mode=f"{closed.permissions:04o}",
        ),
        severity=ERROR if named else WARNING,
        evidence=(
            f"{path} uid={closed.uid} gid={closed.gid} mode={stat.filemode(closed.mode)}",
            *(f"{name}={host.variables[name]}" for name in named),
        ),
        action=Action.CONFIG,
        fix=Fix(title, risk=Risk.MANUAL, needs_root=closed.uid == 0),
    )


def _find_closed(host: Host, path: str) -> Optional[PathStatus]:
    """What is there, where this user surely can make no server in it: neither in it, nor in a folder of the
    user's own below it, which servers take that know a login name."""
    who = job_user(host)
    try:
        entry = host.running_files.stat(path)
        if entry is None or may_create_in(entry, who) is not False:
            return None
        own = None if who.is_denied(entry, 1) else host.running_files.stat(f"{path}/{who.user}")
    except CannotTell:
        return None
    return entry if own is None or may_create_in(own, who) is False else None


def _name(host: Host, uid: int) -> str:
    return user_names(host.files).get(uid, f"uid {uid}")
