"""Can compile caches be used, and does no dead build lock them?"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    RemoveUnused,
    Risk,
    Scope,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.job.working_directory import foreign_user, job_user, working_directory
from npudoctor.host.users.access import first_barrier, may_create_in, nearest_folder

if TYPE_CHECKING:
    from npudoctor.core.mounts import Mount
    from npudoctor.host.users.access import NearestFolder

OLD = 3600  # seconds: a build of an operator takes minutes
# ACL_OP_COMPILER_CACHE_DIR beats ASCEND_CACHE_PATH; MindSpore's cache is independent of both.
ACL, ASCEND, MINDSPORE = "ACL_OP_COMPILER_CACHE_DIR", "ASCEND_CACHE_PATH", "MS_COMPILER_CACHE_PATH"
# FileLocker of MindSpore 2.10.0 (ops/operations/_custom_ops_utils.py) creates <build>/build.lock, and all
# others wait for as long as it exists.
LOCK = "build.lock"
MANY = 2000  # builds of operators whose locks are looked for


@check(
    "compile-cache",
    scope=Scope.JOB,
    tags={"ascend", "mindspore"},
    codes={
        "compile-cache.stale-lock": WARNING,
        "compile-cache.lock": INFO,
        "compile-cache.not-writable": WARNING,
        "compile-cache.missing": WARNING,
        "compile-cache.relative": INFO,
        "compile-cache.no-file-locks": WARNING,
    },
)
def compile_cache(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Compile caches are usable, with no stale locks.

    ## What it does

    Looks at the compile caches of this shell: that of CANN's operators (ACL_OP_COMPILER_CACHE_DIR, else
    ASCEND_CACHE_PATH, else `atc_data` in HOME) and that of MindSpore (MS_COMPILER_CACHE_PATH, else
    `kernel_meta` in the working directory).

    - `compile-cache.stale-lock`: MindSpore's builder of custom operators creates `<build>/build.lock`, holds
      it open, and removes it at the end. This lock is at least an hour old, and its owner has nothing open in
      that folder: the builder died. `compile-cache.lock`: the lock is younger, in use, or cannot be proven
      stale (in a container, on a network mount, or when the owner's processes are hidden).
    - `compile-cache.not-writable`, `compile-cache.missing`: judged by owner, mode and mount; nothing is
      written. What an NFS server lets root do is unknown. ASCEND_CACHE_PATH must exist.
    - `compile-cache.no-file-locks`: the cache is on NFSv3 or on a mount without locks; CANN's documents
      advise against it.
    - `compile-cache.relative`: the location of the cache depends on where the job is started.

    ## Why it matters

    While a build.lock exists, every other process waits for it forever: training hangs silently. A
    cache that cannot be written makes each start compile everything again, or fail.

    ## Fix safety

    On a local file system (ext4, xfs, btrfs, tmpfs), `fix` removes a stale lock while it holds a lease on it
    (F_SETLEASE). The kernel grants the lease only where no process has the lock open, and a running build has
    it open. On other file systems the command is only shown. Caches are never removed: they can be built
    again, but that takes long.

    ## References

    - MindSpore 2.10.0, `ops/operations/_custom_ops_utils.py`: FileLocker.
    - CANN, "Environment variables": ASCEND_CACHE_PATH, its order and its constraints.
    """
    caches = list(_find_caches(host))
    if not caches:
        raise Skip(_("this machine has no compile cache, and no variable points to one"))
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.system.mounts import mounts_of

    yield Facts({"caches": [cache.path for cache in caches]})
    mounts_of(host)  # an unreadable mount table is not a PermissionError of one cache
    reason = ""
    for cache in caches:
        if not cache.path.startswith("/"):
            text = _("the compile cache {path} ({name}) is relative to the folder where the job starts")
            yield _finding("relative", text, cache)
            continue
        try:
            undetermined = yield from _judge_cache(host, cache)
        except CannotTell as error:
            # Only a closed folder is a fault of the cache; a file system that does not answer makes the
            # result unknown.
            if not isinstance(error.__cause__, PermissionError):
                raise
            yield _report_not_entered(host, cache, error.reason)
        else:
            reason = reason or undetermined
    if reason:
        raise Unknown(reason, advisory=True)


def _judge_cache(host: Host, cache: Cache) -> Generator[Finding, None, str]:
    """Yield the findings about one cache; returns why something could not be determined, "" if everything
    could."""
    from npudoctor.facts.system.mounts import mount_at

    place, foreign = nearest_folder(host.files, cache.path), foreign_user(host)
    barrier = first_barrier(host.files, place.path, foreign) if foreign else None
    if barrier is not None:
        yield _report_not_entered(host, cache, nearest_folder(host.files, barrier).label)
        return ""
    mount = mount_at(host, place)
    undetermined = yield from _judge_folder(host, cache, place, mount)
    # NFS before version 4 is of the type nfs; what it was mounted with is among its options.
    # Only CANN's documents (ASCEND_CACHE_PATH) require file locks, so MindSpore's cache is not judged.
    if not (mount is None or cache.named_by not in (ACL, ASCEND, "")):
        lock_breakers = {"nolock", "local_lock=all", "local_lock=flock"} & set(mount.options)
        if mount.kind == "nfs" or (mount.kind == "nfs4" and lock_breakers):
            text = _("the compile cache {path} is on {mount} ({kind}), which has no reliable file locks")
            evidence = (f"{mount.point} {mount.kind} {','.join(mount.options)}",)
            yield _finding("no-file-locks", text, cache, evidence, mount=mount.point, kind=mount.kind)
    for path in _find_locks(host, cache) if cache.builds else ():
        yield _report_lock(host, path, mount)
    return undetermined


def _report_not_entered(host: Host, cache: Cache, reason: str) -> Finding:
    text = _("{user} cannot enter the compile cache {path}")
    return _finding("not-writable", text, cache, (reason,), user=job_user(host).user)


def _judge_folder(
    host: Host, cache: Cache, place: NearestFolder, mount: Optional[Mount]
) -> Generator[Finding, None, str]:

    user = job_user(host)
    if cache.named_by == ASCEND and not place.exists:
        yield _finding("missing", _("{name} is {path}, which does not exist: CANN does not create it"), cache)
        return ""
    may_write = may_create_in(place.entry, user, mount)
    if may_write is None and user.is_root:
        text = _("only the NFS server knows whether root may write in {place}")
        return text.format(place=place.path)
    if may_write is False:
        text = _("{user} cannot write to the compile cache {path}: check {place}")
        if mount is not None and mount.read_only:
            text = _("the compile cache {path} cannot be written: {mount} is mounted read-only")
        words = {"user": user.user, "place": place.path, "mount": mount.point if mount else ""}
        yield _finding("not-writable", text, cache, (place.label,), **words)
    return ""


def _report_lock(host: Host, path: str, mount: Optional[Mount]) -> Finding:
    from npudoctor.proof.build_lock import is_lock_unused
    from npudoctor.proof.shared_storage import why_shared

    entry = host.files.lstat(path)
    age = host.clock.now() - (entry.mtime_ns / 1e9 if entry else 0)
    is_unused = is_lock_unused(host, path, entry.uid) if entry and not why_shared(host, path) else None
    words = {"path": path, "minutes": int(age // 60)}
    if age < 0:
        text = _("{path} is dated in the future, so its age is unknown: jobs wait for it")
        return Finding("compile-cache.lock", text.format(**words))
    # FileLocker creates an empty file: one with content is not its lock.
    if age < OLD or is_unused is not True or entry is None or not entry.is_file or entry.size:
        text = _(
            "{path} is {minutes} minutes old: jobs wait for it; could not determine whether its "
            "build is running"
        )
        if is_unused is False:
            text = _("{path} is {minutes} minutes old and held by a running build: jobs wait for it")
        return Finding("compile-cache.lock", text.format(**words))
    text = _(
        "{path} is {minutes} minutes old and no process holds it: its build died, and training would hang"
    )
    # RemoveUnused takes a lease (F_SETLEASE) before it removes the lock, which the kernel grants only if no
    # process has the file open. Other file systems grant none: there the command is only shown.
    from npudoctor.proof.unused import LEASED, mark_of

    title, needs_root = _("remove the stale {name}", name=LOCK), entry.uid != job_user(host).euid
    if mount is None or mount.kind not in LEASED:
        steps = (Command(("rm", "--", path)),)
        fix = Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=needs_root)
    else:
        step = RemoveUnused(path.rpartition("/")[0], entry.uid, (mark_of(path, entry),))
        fix = Fix(title, steps=(step,), risk=Risk.SAFE, needs_root=needs_root)
    return Finding(
        "compile-cache.stale-lock",
        text.format(**words),
        evidence=(f"{path} uid={entry.uid} size={entry.size} ino={entry.ino}",),
        action=Action.CLEANUP,
        fix=fix,
    )


def _finding(code: str, text: str, cache: Cache, evidence: tuple[str, ...] = (), **words: str) -> Finding:
    name = cache.named_by or "HOME"
    return Finding(
        f"compile-cache.{code}",
        text.format(path=cache.path, name=name, **words),
        evidence=(*((f"{name}={cache.path}",) if cache.named_by else ()), *evidence),
        action=Action.CONFIG,
    )


@dataclass(frozen=True)
class Cache:
    """One cache folder. `named_by`: the variable that names it, "" for the default place. `builds`: it
    contains builds with locks."""

    path: str
    named_by: str
    builds: bool = False


def _find_caches(host: Host) -> Iterator[Cache]:
    """Yield the caches that a job of this shell would use: those of the variables, else the default places if
    they exist."""
    variables, home = host.variables, job_user(host).home.rstrip("/")
    first = next((name for name in (ACL, ASCEND) if variables.get(name)), None)
    if first is not None:
        yield Cache(variables[first], first)
    elif _exists(host, f"{home}/atc_data") and installs_of(host):
        yield Cache(f"{home}/atc_data", "")
    if variables.get(MINDSPORE):
        yield Cache(variables[MINDSPORE], MINDSPORE, builds=True)
        return
    start_folder = _start_folder(host)
    place = f"{start_folder.rstrip('/')}/kernel_meta"
    if start_folder.startswith("/") and _exists(host, place):
        yield Cache(place, "", builds=True)


def _start_folder(host: Host) -> str:
    """Return the working directory of the job; PWD if /proc of the process cannot be read."""
    try:
        start_folder = working_directory(host)
    except CannotTell:
        start_folder = None
    return start_folder or host.variables.get("PWD", "")


def _exists(host: Host, path: str) -> bool:
    """Whether a usual place exists; one that this user cannot look at is not a cache of this user."""
    try:
        return host.files.stat(path) is not None
    except CannotTell:
        return False


def _find_locks(host: Host, cache: Cache) -> Iterator[str]:
    """Yield the real path of each build lock in the cache, of at most MANY builds."""
    real = host.files.real(cache.path)
    for name in host.files.names(real)[:MANY] if real else ():
        path = f"{real}/{name}/{LOCK}"
        if host.files.lstat(path) is not None:
            yield path
