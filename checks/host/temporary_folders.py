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
# Either one says that this job uses a dataset cache server.
CACHE = ("MS_CACHE_HOST", "MS_CACHE_PORT")
WHEELS = ("mindspore", "mindspore-ascend", "mindspore-gpu")
# The sticky bit: in a folder that all may write, only its owner may remove a file (inode(7)).
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
    - `temporary-folders.mindspore-closed`: /tmp/mindspore belongs to another user, and this user cannot
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
    tmpdir, own_folder, no_answer = host.variables.get("TMPDIR", ""), None, None
    if tmpdir.startswith("/") and tmpdir.rstrip("/") != TMP:
        try:
            own_folder = _examine_folder(host, tmpdir)
        except CannotTell as error:
            # Reported as unknown at the end, after the findings about the other folders.
            no_answer = error
    folders = {TMP: _examine_folder(host, TMP), SHM: _examine_folder(host, SHM)}
    if not folders[SHM].exists:
        del folders[SHM]  # shm-size says so
    shown = [*folders.values(), *([own_folder] if own_folder else [])]
    yield Facts({folder.path: {"writable": folder.writable} for folder in shown})
    for folder in folders.values():
        # Python's tempfile and most programs take TMPDIR before /tmp.
        has_other_folder = folder.path == TMP and own_folder is not None and own_folder.writable is True
        if folder.writable is False:
            yield _report_not_writable(host, folder, WARNING if has_other_folder else ERROR)
    if own_folder is not None and own_folder.writable is False:
        yield _report_not_writable(host, own_folder, WARNING, variable="TMPDIR")
    if folders[TMP].writable is not False:
        yield from _judge_mindspore(host, f"{TMP}/mindspore")
    if no_answer is not None:
        raise Unknown(no_answer.reason, tried_by=TRIED_BY) from no_answer
    _require_known(host, folders.values())


@dataclass(frozen=True)
class JobFolder:
    """A folder that the job writes to. `entry`: its stat, None if it is missing or cannot be examined.
    `barrier`: the folder above that this user may not enter, "" for none. `why_gone`: why its file system is
    unusable, "" for none. `writable`: None if the mode does not decide."""

    path: str
    exists: bool
    writable: Optional[bool]
    entry: Optional[PathStatus] = None
    mount: Optional[Mount] = None
    barrier: str = ""
    why_gone: str = ""


def _examine_folder(host: Host, path: str) -> JobFolder:
    """Examine a folder by owner, mode and mount. Raises CannotTell if its file system does not answer."""
    foreign = foreign_user(host)
    try:
        place = nearest_folder(host.running_files, path)
        barrier = first_barrier(host.files, place.path, foreign) if foreign else None
    except CannotTell as error:
        if has_ended(error):
            return JobFolder(path, True, False, why_gone=error.reason)
        if not isinstance(error.__cause__, PermissionError):
            raise
        return JobFolder(path, True, False, barrier=path.rpartition("/")[0] or "/")
    if barrier is not None:
        return JobFolder(path, True, False, barrier=barrier)
    if not place.exists:
        return JobFolder(path, False, False)
    mount = mount_at(host, place)
    writable = may_create_in(place.entry, job_user(host), mount)
    if writable is None and foreign is None:  # an access list, or a server: the kernel knows
        writable = host.disk.may_access(host.running_files.real(path) or path, os.W_OK | os.X_OK)
    return JobFolder(path, True, writable, place.entry, mount)


def _require_known(host: Host, folders: Iterable[JobFolder]) -> None:
    """Raise Unknown if it is unknown whether the job's user may write to one of the folders."""
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


def _report_not_writable(host: Host, place: JobFolder, severity: Severity, variable: str = "") -> Finding:
    """Report a folder that this user may not write to, with the reason."""
    words = {
        "path": f"{variable}={place.path}" if variable else place.path,
        "user": job_user(host).user,
        "mount": place.mount.point if place.mount else "",
        "closed": place.barrier,
        "why": place.why_gone,
    }
    if place.entry is not None:
        words["owner"] = _owner_name(host, place.entry.uid)
        words["mode"] = f"{place.entry.permissions:04o}"
    if place.why_gone:
        why = _("{user} cannot write to {path}: {why}")
    elif place.barrier:
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
        # The trials create files there: if they fail as well, they know the kernel's own reason.
        echo_of=("trial-shared-memory.refused" if place.path == SHM else "trial-files.cannot-write",),
    )


def _fix(host: Host, place: JobFolder, variable: str) -> Optional[Fix]:
    """Return the command for root that corrects the folder; for a container, what its creator must do; None
    if no command is known."""
    if variable:
        steps = (Command(("unset", variable)),)
        title = _("use /tmp instead, in the shell that starts the job")
        return Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=False)
    if place.why_gone:
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
        # The kernel remounts a damaged file system read-only (ext4: errors=remount-ro), so the log comes
        # first.
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
    """Report /tmp/mindspore if another user owns it and this user may not enter: the first cache server
    creates it with mode 0700 (seen with MindSpore 2.7.0 and 2.10.0)."""
    cache_variables = [name for name in CACHE if host.variables.get(name)]
    denied = _find_denied(host, path)
    try:
        is_concerned = bool(cache_variables) or any(host.interpreter.version_of(name) for name in WHEELS)
    except CannotTell:
        # If the packages cannot be read, a closed folder is not reported: it harms only users of MindSpore.
        is_concerned = False
    if denied is None or not is_concerned:
        return
    owner = _owner_name(host, denied.uid)
    title = _("ask {owner} to remove {path} once no cache server uses it", owner=owner, path=path)
    yield Finding(
        "temporary-folders.mindspore-closed",
        _(
            "{user} cannot start a dataset cache server: {path} belongs to {owner}, mode {mode}; "
            "`dataset-cache --start` reports success, but the server exits immediately",
            user=job_user(host).user,
            path=path,
            owner=owner,
            mode=f"{denied.permissions:04o}",
        ),
        severity=ERROR if cache_variables else WARNING,
        evidence=(
            f"{path} uid={denied.uid} gid={denied.gid} mode={stat.filemode(denied.mode)}",
            *(f"{name}={host.variables[name]}" for name in cache_variables),
        ),
        action=Action.CONFIG,
        fix=Fix(title, risk=Risk.MANUAL, needs_root=denied.uid == 0),
    )


def _find_denied(host: Host, path: str) -> Optional[PathStatus]:
    """Return the entry of the folder if this user surely cannot start a server: neither in it nor in the
    subfolder with the user's login name, which servers use if getlogin() knows one."""
    user = job_user(host)
    try:
        entry = host.running_files.stat(path)
        if entry is None or may_create_in(entry, user) is not False:
            return None
        own_entry = None if user.is_denied(entry, 1) else host.running_files.stat(f"{path}/{user.user}")
    except CannotTell:
        # A folder that cannot be examined proves nothing.
        return None
    return entry if own_entry is None or may_create_in(own_entry, user) is False else None


def _owner_name(host: Host, uid: int) -> str:
    return user_names(host.files).get(uid, f"uid {uid}")
