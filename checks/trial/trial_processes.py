"""Does the kernel give the ranks of this node their processes, threads and descriptors?"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

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
    SetKernel,
    Severity,
    _,
    check,
)
from npudoctor.checks.trial._folders import MINDSPORE, has_framework, is_installed
from npudoctor.checks.trial._limits import (
    ask_for_option,
    limit_line,
    lower_stack_fix,
    raise_limit,
    unfilter_fix,
)
from npudoctor.checks.trial._trying import count_ranks, raise_if_incomplete, skip_unless_allowed
from npudoctor.core.errors import CannotTell
from npudoctor.facts.system.limits import group_folders, limit_of
from npudoctor.trial.trials import Attempt, Trial

THREADS = 64  # of a rank: its own, those of the collective library, of the data loader, of OpenMP
DESCRIPTORS = 256
# Ranks, and threads of all of them: on a node of more than 16 ranks each tries fewer.
MOST_THREADS = 1024
# Of a rank: below them two ranks of torch, and of MindSpore, that train on CPUs were seen not to start.
FEW_THREADS, FEW_OF_MINDSPORE, FEW_DESCRIPTORS = 10, 24, 32
# 64 threads use an hour of CPU time in a minute of wall time.
HOUR, MINUTES = 3600, 600
# After the first round the kernel starts again at 300 (RESERVED_PIDS in kernel/pid.c), so these stay unused.
RESERVED_PIDS = 300
# PID_MAX_LIMIT of 64-bit kernels (proc_sys_kernel(5)).
PID_MAX = 4194304
# The reason in CannotTell if fork(2) failed for want of processes.
NO_PROCESS = os.strerror(errno.EAGAIN)
# System calls that the trial makes once, and the code of a refusal.
CALLS = {
    "sched_getaffinity": "no-threads",
    "eventfd2": "no-descriptors",
    "pipe2": "no-descriptors",
    "epoll_create1": "no-descriptors",
    "setsid": "no-processes",
}
# Findings of checks that read the same limits without trying.
CAUSES = ("import-limits.too-low", "file-limits.unusable")


class ProcessRefusal(NamedTuple):
    """Which limit refused, as a part of a sentence; the evidence; and the fix (None if unknown)."""

    who: str
    evidence: tuple[str, ...] = ()
    fix: Optional[Fix] = None


@check(
    "trial-processes",
    scope=Scope.JOB,
    quick=False,
    codes={
        "trial-processes.no-processes": ERROR,
        "trial-processes.no-threads": ERROR,
        "trial-processes.no-descriptors": ERROR,
        "trial-processes.cpu-time": ERROR,
    },
)
def trial_processes(host: Host) -> Iterator[Union[Finding, Facts]]:
    """A job can start its ranks' processes and threads.

    ## What it does

    In a child of the job's Python, with the job's variables, limits and control group, the trial starts as
    many processes as this node has ranks (as the launcher counts them, else one for each accelerator, else
    one; at most 64). Each process starts 64 threads, at most 1024 in all, which sleep until all are counted
    and then end; the first process opens 256 descriptors. The trial opens a pipe, an epoll and an eventfd,
    and asks the kernel on which CPUs the process may run.

    - `trial-processes.no-processes`: not every rank can start its process. Or a process cannot start its own
      session, as launchers do for each rank: a warning where no framework is installed.
    - `trial-processes.no-threads`: a rank cannot start 64 threads; a warning where each of at least two ranks
      could start 10 (with MindSpore 24), and no accelerator is used, whose runtime needs more. Or a process
      cannot query its CPUs, as OpenMP does.
    - `trial-processes.no-descriptors`: a rank cannot open 256 descriptors (a warning from 32 on), or the
      kernel refuses a pipe, an epoll or an eventfd.
    - `trial-processes.cpu-time`: `ulimit -t` ends each rank in less than an hour of CPU time. A warning from
      ten minutes on, and where there is neither a framework nor an accelerator. 64 threads use an hour of CPU
      time in a minute.

    Each finding says what refused: a limit of the shell, the control group whose `pids.max` is reached, or a
    setting of the kernel. As root the check is skipped, unless `--as-user` or `--env-of` identifies the job's
    user.

    ## Why it matters

    Without these resources a job dies with "Resource temporarily unavailable", "can't start new thread",
    "OpenBLAS blas_thread_init: pthread_create failed", "Too many open files" or "CPU time limit exceeded",
    during its start or some minutes later, and no message names the limit.

    ## Fix safety

    Shown only: a line for the shell that starts the job, where its hard limit allows it, or for root. A
    person must decide what a control group or the kernel allows.

    ## References

    getrlimit(2), RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_CPU; pthread_create(3); Linux, Process Number Controller
    (`pids.max`); proc_sys_kernel(5), pid_max, threads-max.
    """
    skip_unless_allowed(host)
    ranks = count_ranks(host)
    threads = max(1, min(THREADS, MOST_THREADS // ranks))
    folders = list(dict.fromkeys(folder for folder, _unified in group_folders(host, "pids")))
    try:
        trial = host.trials.try_part(
            "processes", ranks=ranks, threads=threads, descriptors=DESCRIPTORS, groups=folders
        )
    except CannotTell as error:
        # Only EAGAIN of fork(2) has a known cause: the limits below; every other reason is passed on.
        if NO_PROCESS not in error.reason:
            raise
        trial = _build_failed_trial(host, folders)
    facts = trial.facts()
    limits: Mapping[str, list[int]] = facts.get("limits", {})
    yield Facts({"ranks": ranks, "threads": threads, "limits": limits})
    yield from _judge_cpu_time(host, limits)
    for attempt in trial.refused():
        finding = _finding(host, trial, attempt, ranks, threads)
        if finding is not None:
            yield finding
    raise_if_incomplete(trial)


def _build_failed_trial(host: Host, folders: Sequence[str]) -> Trial:
    """Return a trial that states what is known if not even its first process could be started: limits and
    groups."""
    limit, groups = limit_of(host, "Max processes"), []
    for folder in folders:
        names = (f"{folder}/pids.{name}" for name in ("current", "max"))
        current, most = ((host.running_files.text(name) or "").strip() for name in names)
        if current.isdigit() and most.isdigit():
            groups.append((folder, int(current), int(most)))
    pair = [-1 if value is None else value for value in (limit.soft, limit.hard)]
    refused = Attempt("processes", errno.EAGAIN, NO_PROCESS, facts={"groups": groups})
    return Trial((Attempt("limits", facts={"limits": {"-u": pair}}), refused))


def _judge_cpu_time(host: Host, limits: Mapping[str, list[int]]) -> Iterator[Finding]:
    pair = limits.get("-t")
    if pair and 0 <= pair[0] < HOUR:
        yield Finding(
            "trial-processes.cpu-time",
            _("a process is ended after {seconds} s of CPU time (ulimit -t)", seconds=pair[0]),
            # A job without a framework may finish within that time.
            severity=ERROR if pair[0] < MINUTES and _is_training_job(host) else WARNING,
            evidence=(limit_line("-t", pair),),
            action=Action.CONFIG,
            fix=raise_limit(host, "-t", pair, HOUR),
        )


def _finding(host: Host, trial: Trial, attempt: Attempt, ranks: int, threads: int) -> Optional[Finding]:
    """Return the finding for a refused attempt; None for a pidfd and for calls that frameworks do not
    need."""
    facts, severity, missing = attempt.facts, ERROR, 0
    count, expected = int(facts.get("least", 0)), threads
    if attempt.what == "processes":
        count, expected = int(facts.get("started", 0)), ranks
        missing = (ranks - count) * (threads + 1)
        code, text = "no-processes", _("only {count} of {wanted} processes could be started: {who}")
    elif attempt.what == "threads":
        missing = ranks * threads - int(facts.get("all_ranks", 0))
        least = FEW_OF_MINDSPORE if host.interpreter.version_of("mindspore") else FEW_THREADS
        is_enough = int(facts.get("all_ranks", 0)) >= least * max(2, ranks)
        severity = _severity(is_enough and not _has_accelerator(host))
        code, text = "no-threads", _("a rank could start only {count} of {wanted} threads: {who}")
    elif attempt.what == "descriptors":
        expected, severity = DESCRIPTORS, _severity(count >= FEW_DESCRIPTORS)
        code, text = "no-descriptors", _("a rank could open only {count} of {wanted} files: {who}")
    elif attempt.what == "ranks":
        code, text = "no-processes", _("trial processes ended before they answered: {who}")
    elif attempt.what in CALLS:
        code = CALLS[attempt.what]
        text = _("the kernel refuses {call}: {who}")
        if attempt.what == "setsid":  # torchrun, msrun and Paddle's launcher; multiprocessing does without
            severity = _severity(not has_framework(host))
    else:
        return None
    refusal = _explain_refusal(host, trial, attempt, missing)
    return Finding(
        f"trial-processes.{code}",
        text.format(call=attempt.what, count=count, wanted=expected, who=refusal.who),
        severity=severity,
        evidence=refusal.evidence,
        action=Action.CONFIG,
        fix=refusal.fix,
        echo_of=(*CAUSES, "import-limits.address-space") if code == "no-threads" else CAUSES,
    )


def _severity(enough_for_some: bool) -> Severity:
    return WARNING if enough_for_some else ERROR


def _is_training_job(host: Host) -> bool:
    return is_installed(host, "torch", *MINDSPORE) or _has_accelerator(host)


def _has_accelerator(host: Host) -> bool:
    try:
        return host.wants_npus() or host.gpus.is_usable
    except CannotTell:
        # Unknown is taken for none: the threads of an accelerator's runtime are then not required.
        return False


def _explain_refusal(host: Host, trial: Trial, attempt: Attempt, missing: int) -> ProcessRefusal:
    """Return which limit refused, the nearest first. `missing`: how many more processes and threads are
    needed."""
    limits: Mapping[str, list[int]] = trial.facts().get("limits", {})
    if attempt.number == errno.EMFILE and "-n" in limits:
        pair = limits["-n"]
        who = _("ulimit -n allows {count} open files", count=pair[0])
        return ProcessRefusal(who, (limit_line("-n", pair),), raise_limit(host, "-n", pair, 2 * DESCRIPTORS))
    if attempt.number == errno.ENFILE:
        return _setting_refusal(host, "fs.file-max", 9223372036854775807) or ProcessRefusal(attempt.reason)
    if attempt.number == errno.ENOMEM and attempt.what == "threads":
        return _stack_refusal(host, limits, attempt)
    if attempt.number == errno.EAGAIN:
        return _count_refusal(host, limits, attempt, missing) or ProcessRefusal(attempt.reason)
    return ProcessRefusal(attempt.reason, fix=unfilter_fix(host, attempt))


def _stack_refusal(host: Host, limits: Mapping[str, list[int]], attempt: Attempt) -> ProcessRefusal:
    """Return which limit leaves no room for the stack of a thread."""
    lower = lower_stack_fix(limits.get("-s"))
    if lower is not None:
        pair = limits["-s"]
        return ProcessRefusal(_("no room for its stack (ulimit -s)"), (limit_line("-s", pair),), lower)
    pair = limits.get("-v", [-1, -1])
    if pair[0] < 0:
        return ProcessRefusal(attempt.reason)
    who = _("no room for its stack in the address space (ulimit -v)")
    return ProcessRefusal(who, (limit_line("-v", pair),), raise_limit(host, "-v", pair, pair[0] + 1))


def _count_refusal(
    host: Host, limits: Mapping[str, list[int]], attempt: Attempt, missing: int
) -> Optional[ProcessRefusal]:
    """Return the limit of processes and threads that was reached: of the control group, the kernel or the
    user; None if none was."""
    facts: Mapping[str, Any] = attempt.facts
    for path, current, most in facts.get("groups", ()):
        if current >= most:
            who = _("the control group {path} allows {count} processes and threads", path=path, count=most)
            return ProcessRefusal(
                who, (f"{path}/pids.max {most}, pids.current {current}",), _wider_group_fix(host, path)
            )
    if facts.get("all", 0) >= facts.get("threads-max", PID_MAX):
        return _setting_refusal(host, "kernel.threads-max", 2 * int(facts["threads-max"]))
    if facts.get("seen", 0) >= facts.get("pid_max", PID_MAX) - RESERVED_PIDS - 16:
        return _setting_refusal(host, "kernel.pid_max", PID_MAX)
    pair = limits.get("-u", [-1, -1])
    if pair[0] < 0:
        return None
    who = _("ulimit -u allows this user {count} processes and threads", count=pair[0])
    evidence = [limit_line("-u", pair)]
    if "own" in facts:
        evidence.append(
            _("{count} processes and threads of this user were seen when it was refused", count=facts["own"])
        )
    return ProcessRefusal(who, tuple(evidence), raise_limit(host, "-u", pair, pair[0] + max(1, missing)))


def _setting_refusal(host: Host, name: str, value: int) -> Optional[ProcessRefusal]:
    path = f"/proc/sys/{name.replace('.', '/')}"
    # A small read: the kernel refuses reads of 4 MiB and more from /proc/sys.
    current = (host.running_files.text(path, 1 << 10) or "").strip()
    if not current:
        return None
    title = _("raise the limit until the next boot")
    fix = Fix(title, steps=(SetKernel(name, str(value), current),), risk=Risk.MANUAL)
    return ProcessRefusal(_("{name} is {value}", name=name, value=current), (path,), fix)


def _wider_group_fix(host: Host, path: str) -> Fix:
    if host.system.is_container():
        option: Fix = ask_for_option("--pids-limit", "-1")
        return option
    unit = path.rpartition("/")[2]
    title = _("allow the control group more processes and threads")
    step = Command(("sh", "-c", f"echo max > {path}/pids.max"))
    if unit.endswith((".slice", ".service", ".scope")):
        step = Command(("systemctl", "set-property", unit, "TasksMax=infinity"))
    return Fix(title, steps=(step,), risk=Risk.MANUAL)
