"""Can the processes of a job share memory?"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import NamedTuple, Optional, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Remount,
    Risk,
    Scope,
    SetKernel,
    Severity,
    Unknown,
    _,
    check,
)
from npudoctor.checks.trial._folders import has_framework
from npudoctor.checks.trial._limits import ask_for_option, free_memory, limit_line, raise_limit, unfilter_fix
from npudoctor.checks.trial._refusals import give_owner_rights
from npudoctor.checks.trial._trying import raise_if_incomplete, skip_unless_allowed
from npudoctor.core.errors import CannotTell
from npudoctor.core.mounts import MOUNTINFO, parse_mountinfo
from npudoctor.core.sizes import size_text
from npudoctor.trial.trials import Attempt, Trial

SHM = "/dev/shm"  # noqa: S108
MIB, GIB = 1 << 20, 1 << 30
BATCH = 64 * MIB  # what a data loader passes on at a time
MOST = 16 * GIB  # for /dev/shm
HEADROOM = GIB  # below this little is taken: the first to be killed should not be somebody else
# A tmpfs has half as many inodes as there are pages of memory; a job needs far fewer than a million.
INODES = 1_000_000
# Errors of the kernel for want of room; EFBIG comes from the shell's `ulimit -f`.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EFBIG, errno.E2BIG)
# The kernel's defaults of the settings that can refuse a System V segment, and what the trial needs of each.
# 18446744073692774399 is ULONG_MAX - (1 << 24), the default of shmmax and shmall since Linux 3.16
# (shmget(2)).
SYSV = {
    "kernel.shmmax": (18446744073692774399, MIB),
    "kernel.shmall": (18446744073692774399, MIB // 4096),
    "kernel.shmmni": (4096, 1),
}
MOST_SEGMENTS = 32768  # IPCMNI, the kernel's upper limit of shmmni


class MemoryRefusal(NamedTuple):
    """Why shared memory was refused, as a sentence; the evidence, the fix (None if unknown), and its kind of
    action."""

    why: str
    evidence: tuple[str, ...] = ()
    fix: Optional[Fix] = None
    action: Action = Action.CONFIG


@check(
    "trial-shared-memory",
    scope=Scope.JOB,
    quick=False,
    codes={"trial-shared-memory.no-room": ERROR, "trial-shared-memory.refused": ERROR},
)
def trial_shared_memory(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The processes of a job can share memory.

    ## What it does

    In a child of the job's Python, with the job's variables, limits and control group, the trial creates a
    segment of 64 MiB in /dev/shm, as a worker of a data loader does for a batch. It allocates all of it where
    less than 256 MiB are free, else 8 MiB of it; where that is refused, it creates one of 1 MiB. It creates a
    semaphore as sem_open does. It sends a segment over Unix sockets, a pair and one that listens. It opens
    what it created a second time, as a process that knows its name does. It attaches a System V segment of 1
    MiB. Files have no name, or only for a moment; nothing is left. Where the machine or the control group has
    less than 1 GiB of memory left, the large segment is not tried, and the result says so.

    - `trial-shared-memory.no-room`: the size of /dev/shm, its inodes, or a limit leaves no room. A warning
      where 1 MiB is available, which is enough for all but data loaders.
    - `trial-shared-memory.refused`: shared memory is not allowed; or there is no /dev/shm, no Unix socket, or
      no module for it in this Python.

    Failures of System V segments, which MindSpore's cache server and some of MPI use, and of socket pairs are
    warnings. So is memory that cannot be sent where no framework is installed, and memory that cannot be
    opened a second time where one is: ranks that multiprocessing spawns open it by name, data loaders that
    torch forks send it. As root the check is skipped, unless `--as-user` or `--env-of` identifies the job's
    user.

    ## Why it matters

    Without shared memory a data loader ends with "Bus error", "unable to open shared memory object" or "No
    space left on device", and `multiprocessing` with "Function not implemented" or "Permission denied".

    ## Fix safety

    A larger /dev/shm keeps its contents and returns to its old size after a reboot; `npudoctor undo` restores
    the size too. It is CAUTION because the contents of /dev/shm take memory from all users. All other fixes
    are shown only.

    ## References

    shm_overview(7), sem_overview(7), tmpfs(5), unix(7), shmget(2); PyTorch, torch.multiprocessing, sharing
    strategies; Python, multiprocessing.
    """
    skip_unless_allowed(host)
    free = free_memory(host)
    large = BATCH if free >= HEADROOM else 0
    trial = host.trials.try_part("shared_memory", large=large)
    yield Facts({"left": free, "tried": [attempt.what for attempt in trial.attempts]})
    refused = trial.refused()
    # If 1 MiB is refused, 64 MiB were too: report it once.
    small = [attempt for attempt in refused if attempt.what == "small"]
    findings = [
        _finding(host, trial, attempt) for attempt in refused if attempt.what != "segment" or not small
    ]
    # Of findings with the same message, the most severe (the last in the dict) remains.
    yield from {
        finding.message: finding for finding in sorted(findings, key=lambda finding: finding.weight)
    }.values()
    # SIGBUS: the tmpfs has no page left for the mapping; SIGKILL: the limit of the control group.
    if trial.died in ("segment", "small") and trial.signal in (7, 9):
        yield Finding(
            "trial-shared-memory.no-room",
            _("the kernel ended the trial when it took {size} of shared memory", size=size_text(BATCH)),
            action=Action.CONFIG,
        )
        return
    raise_if_incomplete(trial)
    if not large and not refused:
        raise Unknown(
            _(
                "only {left} of memory is left here: {size} of shared memory was not tried",
                left=size_text(free),
                size=size_text(BATCH),
            )
        )


def _finding(host: Host, trial: Trial, attempt: Attempt) -> Finding:
    code = "no-room" if attempt.number in NO_ROOM else "refused"
    severity: Severity = ERROR
    if attempt.what == "module":
        why = MemoryRefusal(
            _("this Python cannot load {module}: {why}", module=attempt.facts["module"], why=attempt.reason),
            fix=Fix(_("use a Python that was built with it"), risk=Risk.MANUAL, needs_root=False),
        )
    elif attempt.what in ("socketpair", "listener"):
        # Socket pairs are multiprocessing's two-way pipes, which torch does not use. Frameworks send memory
        # over listening sockets; ranks that multiprocessing spawns open it by name instead.
        severity = ERROR if attempt.what == "listener" and has_framework(host) else WARNING
        text = _("processes cannot send memory over a Unix socket: {why}", why=attempt.reason)
        why = MemoryRefusal(text, fix=unfilter_fix(host, attempt))
    elif attempt.what == "again":
        # A spawned rank opens each lock by its name; torch's data loaders fork and send the rest.
        severity = WARNING if has_framework(host) else ERROR
        why = _explain_reopen(attempt)
    elif attempt.what == "sysv":
        severity = WARNING
        why = _explain_sysv(host, attempt)
        code = "no-room" if attempt.number in (errno.ENOSPC, errno.EINVAL, errno.ENOMEM) else "refused"
    else:
        if attempt.what == "segment" and code == "no-room":
            severity = WARNING
        why = _explain_no_room(host, trial, attempt) if code == "no-room" else _explain_access(host, attempt)
    return Finding(
        f"trial-shared-memory.{code}",
        why.why,
        severity=severity,
        evidence=why.evidence,
        action=why.action,
        fix=why.fix,
        echo_of=("trial-python.module-missing",) if attempt.what == "module" else (),
    )


def _explain_reopen(attempt: Attempt) -> MemoryRefusal:
    """Explain a file that its own creator cannot open a second time."""
    text = _("a file created in /dev/shm cannot be reopened by its name: {why}", why=attempt.reason)
    return MemoryRefusal(text, *give_owner_rights(int(attempt.facts.get("umask", 0)), SHM))


def _explain_no_room(host: Host, trial: Trial, attempt: Attempt) -> MemoryRefusal:
    """Explain want of room: a limit of the shell, no inode, or no bytes."""
    facts, limits = attempt.facts, trial.facts().get("limits", {})
    size = int(facts.get("bytes", 0))
    for number, flag in ((errno.EFBIG, "-f"), (errno.ENOMEM, "-v")):
        pair = limits.get(flag, [-1, -1])
        if attempt.number == number and pair[0] >= 0:
            text = _("ulimit {flag} does not allow {size} of shared memory", flag=flag, size=size_text(size))
            fix: Fix = raise_limit(host, flag, pair, pair[0] + max(size, 1))
            return MemoryRefusal(text, (limit_line(flag, pair),), fix)
    if facts.get("inodes") and not facts.get("inodes_free", 1):
        text = _(
            "no file can be added to /dev/shm: all of its {count} inodes are in use", count=facts["inodes"]
        )
        return MemoryRefusal(text, (f"df -i {SHM}",), _more_inodes_fix(host), Action.CLEANUP)
    if attempt.number not in (errno.ENOSPC, errno.EDQUOT) or "total" not in facts:
        words = {"size": size_text(size or MIB), "why": attempt.reason}
        return MemoryRefusal(_("{size} of shared memory cannot be allocated: {why}", **words))
    total, free = int(facts["total"]), int(facts["free"])
    text = _(
        "no room for {size} of shared memory in /dev/shm: {free} of {total} are free",
        size=size_text(size or MIB),
        free=size_text(free),
        total=size_text(total),
    )
    is_full = total >= BATCH > free
    return MemoryRefusal(text, (), _enlarge_fix(host, total), Action.CLEANUP if is_full else Action.CONFIG)


def _enlarge_fix(host: Host, current_size: int) -> Optional[Fix]:
    """Return the fix that enlarges /dev/shm to half of the memory (the kernel's default, at most 16 GiB); if
    it is that large, to remove unused files. `current_size` is in bytes."""
    try:
        size = min(host.resources.memory().total // 2 // MIB * MIB, MOST)
    except CannotTell:
        # Without the size of the memory the container's option asks for 1 GiB at least.
        size = 0
    if host.system.is_container():
        option: Fix = ask_for_option("--shm-size", f"{max(size, GIB) // GIB}g")
        return option
    if size <= current_size:
        title = _("remove unused files: `npudoctor check shared-memory` lists what is in /dev/shm")
        return Fix(title, risk=Risk.MANUAL, needs_root=False)
    if not _is_tmpfs(host):
        return None
    return Fix(
        _("make it larger until the next boot"), (Remount(SHM, size, current_size),), risk=Risk.CAUTION
    )


def _more_inodes_fix(host: Host) -> Optional[Fix]:
    if host.system.is_container() or not _is_tmpfs(host):
        return None
    step = Command(("mount", "-o", f"remount,nr_inodes={INODES}", SHM))
    return Fix(_("raise its inode limit until the next boot"), (step,), risk=Risk.MANUAL)


def _is_tmpfs(host: Host) -> bool:
    mounts = parse_mountinfo(host.running_files.text(MOUNTINFO) or "")
    return SHM in mounts and mounts[SHM].kind == "tmpfs"


def _explain_access(host: Host, attempt: Attempt) -> MemoryRefusal:
    """Explain a /dev/shm that is missing, read-only or closed, or a refusal of the kernel."""
    mode = attempt.facts.get("mode")
    if attempt.number in (errno.ENOENT, errno.ENOTDIR):
        text = _("processes cannot share memory: there is no /dev/shm")
        # A dangling link prevents mkdir.
        link = (Command(("rm", SHM)),) if host.running_files.lstat(SHM) is not None else ()
        steps = (
            *link,
            Command(("mkdir", "-p", SHM)),
            Command(("mount", "-t", "tmpfs", "-o", "mode=1777,nosuid,nodev", "tmpfs", SHM)),
        )
        return MemoryRefusal(
            text, fix=Fix(_("mount a tmpfs there until the next boot"), steps, risk=Risk.MANUAL)
        )
    if attempt.number == errno.EROFS:
        text = _("processes cannot share memory: /dev/shm is read-only")
        step = Command(("mount", "-o", "remount,rw", SHM))
        return MemoryRefusal(text, fix=Fix(_("remount it read-write"), (step,), risk=Risk.MANUAL))
    if attempt.number == errno.EACCES and isinstance(mode, int) and mode != 0o1777:
        text = _("this user cannot write to /dev/shm, which has the mode {mode}", mode=f"{mode:04o}")
        fix = Fix(_("let all users create files there"), (Command(("chmod", "1777", SHM)),), risk=Risk.MANUAL)
        return MemoryRefusal(text, (f"stat {SHM}: mode {mode:04o}, uid {attempt.facts.get('owner')}",), fix)
    text = _("the kernel refuses shared memory in /dev/shm: {why}", why=attempt.reason)
    return MemoryRefusal(text, fix=unfilter_fix(host, attempt))


def _explain_sysv(host: Host, attempt: Attempt) -> MemoryRefusal:
    """Explain a refused System V segment: which kernel setting is too small."""
    text = _(
        "a System V shared memory segment of {size} is refused: {why}",
        size=size_text(MIB),
        why=attempt.reason,
    )
    steps: list[SetKernel] = []
    for name, (usual, least) in SYSV.items():
        # Few bytes: of 4 MiB and more the kernel refuses to read anything of /proc/sys.
        current = (host.running_files.text(f"/proc/sys/{name.replace('.', '/')}", 1 << 10) or "").strip()
        if current.isdigit() and int(current) < least:
            steps.append(SetKernel(name, str(usual), current))
        elif name == "kernel.shmmni" and attempt.number == errno.ENOSPC and not steps and current.isdigit():
            # ENOSPC with enough shmall: all shmmni segment ids are in use.
            steps.extend(
                [SetKernel(name, str(MOST_SEGMENTS), current)] if int(current) < MOST_SEGMENTS else []
            )
    if not steps:
        return MemoryRefusal(text, fix=unfilter_fix(host, attempt))
    evidence = tuple(f"{step.name} = {step.was}" for step in steps)
    if host.system.is_container():
        words = [word for step in steps for word in ("--sysctl", f"{step.name}={step.value}")]
        option: Fix = ask_for_option(*words)
        return MemoryRefusal(text, evidence, option)
    fix = Fix(_("reset them to the kernel defaults until the next boot"), tuple(steps), risk=Risk.MANUAL)
    return MemoryRefusal(text, evidence, fix)
