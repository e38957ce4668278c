"""Does a job get the memory that it takes in its first minute?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

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
    Unknown,
    _,
    check,
)
from npudoctor.checks.trial._limits import (
    ask_for_option,
    free_memory,
    limit_line,
    raise_limit,
)
from npudoctor.checks.trial._trying import RANKS, count_ranks, raise_if_incomplete, skip_unless_allowed
from npudoctor.core.sizes import size_text
from npudoctor.facts.job.process import frameworks
from npudoctor.facts.system.limits import limit_of, memory_group
from npudoctor.trial.trials import Attempt

MIB, GIB = 1 << 20, 1 << 30
# torch, torch_npu and MindSpore reserve tens of GiB of addresses for a device; nothing of it is touched.
RESERVED, RESERVED_WITHOUT = 64 * GIB, 4 * GIB
# What a process cannot do without that has imported a framework: of torch 2.13 and MindSpore 2.7 for CPUs an
# import was killed in a control group of 140 MiB, and went well in one of 160.
IMPORT = 140 * MIB
# One of these set: the job has a master, and so most likely more than one process.
MEETING = ("MASTER_ADDR", "MASTER_PORT", "MS_SCHED_HOST", "MS_SCHED_PORT")
HEADROOM = GIB  # below this nothing is touched: the first to be killed should not be somebody else
# What refuses each attempt first, by the name in /proc/PID/limits, and its flag of ulimit.
LIMITS = {
    "reserve": ("Max address space", "-v"),
    "grow": ("Max data size", "-d"),
    "touch": ("Max address space", "-v"),
    "lock": ("Max locked memory", "-l"),
}
# Findings of checks that compute from limits what the trial tries.
CAUSES = ("memory.address-space", "import-limits.address-space", "import-limits.data")


@check(
    "trial-memory",
    scope=Scope.JOB,
    quick=False,
    codes={
        "trial-memory.cannot-reserve": ERROR,
        "trial-memory.cannot-allocate": ERROR,
        "trial-memory.cannot-execute": ERROR,
    },
)
def trial_memory(host: Host) -> Iterator[Union[Finding, Facts]]:
    """A job gets the memory for its first minute.

    ## What it does

    In a child of the job's Python, with the job's variables, limits and control group, the trial reserves
    address space without touching it (64 GiB where torch or MindSpore for an accelerator is installed, else 4
    GiB), grows the data segment by 16 MiB, touches 256 MiB, locks 64 KiB, and maps a library as executable.
    All of it is released at once. Where the machine or the control group has less than 1 GiB left, nothing is
    touched, and the result says so.

    - `trial-memory.cannot-reserve`: the address space or the data segment cannot grow; a warning for the 4
      GiB of address space, because small jobs start with less.
    - `trial-memory.cannot-allocate`: 256 MiB cannot be touched; or the control group allows less than imports
      of torch or MindSpore take, 140 MiB for each rank of this node (for two where no variable counts them).
      A warning where 64 KiB cannot be locked, which only some jobs need.
    - `trial-memory.cannot-execute`: a library cannot be mapped as the loader maps it.

    As root the check is skipped, unless `--as-user` or `--env-of` identifies the job's user.

    ## Why it matters

    Without this memory a job dies with MemoryError, "failed to map segment from shared object", or by signal
    9, and no message names the limit or the control group that refused.

    ## Fix safety

    Shown only: a line for the shell that starts the job, where its hard limit allows it.

    ## References

    getrlimit(2); mmap(2), MAP_NORESERVE; mlock(2); proc_sys_vm(5), overcommit_memory.
    """
    skip_unless_allowed(host)
    has_accelerator = host.wants_npus() or bool(host.gpus.is_usable)
    # With an accelerator, torch and MindSpore reserve RESERVED at once; other jobs start with less.
    is_large = has_accelerator and bool(frameworks(host, "torch", "mindspore"))
    free = free_memory(host)
    trial = host.trials.try_part(
        "memory",
        reserve=RESERVED if is_large else RESERVED_WITHOUT,
        touch=free >= HEADROOM,
    )
    yield Facts({"left": free, "tried": [attempt.what for attempt in trial.attempts]})
    yield from _judge_group_limit(host)
    for attempt in trial.refused():
        if attempt.what == "ctypes":
            raise Unknown(_("this Python cannot request memory: {why}", why=attempt.reason))
        yield _finding(host, attempt, is_large)
    # SIGKILL comes from the OOM killer of the kernel or of the control group.
    if trial.died == "touch" and trial.signal == 9:
        yield Finding(
            "trial-memory.cannot-allocate",
            _("the kernel ended the trial when it touched {size} of memory", size=size_text(256 * MIB)),
            action=Action.CONFIG,
        )
        return
    raise_if_incomplete(trial)
    if free < HEADROOM and not trial.refused():
        raise Unknown(
            _("only {left} of memory is left here: the trial did not touch any", left=size_text(free))
        )


def _judge_group_limit(host: Host) -> Iterator[Finding]:
    """Report a control group whose limit is too small for the imports of all processes of the job. It is
    computed, because a trial that touches that much memory would be killed."""
    group = memory_group(host)
    installed = frameworks(host, "torch", "mindspore") if group else []
    least = _count_processes(host) * IMPORT
    if group and installed and group.limit < least:
        yield Finding(
            "trial-memory.cannot-allocate",
            _(
                "the control group allows {limit} of memory; the processes of a job that import {framework} "
                "({count}) take at least {need}",
                limit=size_text(group.limit),
                framework=installed[0].name,
                count=_count_processes(host),
                need=size_text(least),
            ),
            evidence=(f"{group.path} limit={group.limit} used={group.used}",),
            action=Action.CONFIG,
            fix=_wider_group_fix(host, group.path),
        )


def _count_processes(host: Host) -> int:
    """Return how many processes of a job import the framework at least: its ranks here; two if a master is
    named and nothing counts the ranks, because the launcher imports it too."""
    ranks: int = count_ranks(host)
    is_counted = any(host.variables.get(name) for name in RANKS)
    return ranks if is_counted or not any(host.variables.get(name) for name in MEETING) else max(2, ranks)


def _wider_group_fix(host: Host, path: str) -> Fix:
    if host.system.is_container():
        option: Fix = ask_for_option("--memory", "16g")
        return option
    unit = path.rpartition("/")[2]
    title = _("allow the control group more memory")
    if unit.endswith((".slice", ".service", ".scope")):
        step = Command(("systemctl", "set-property", unit, "MemoryMax=infinity"))
        return Fix(title, (step,), risk=Risk.MANUAL)
    return Fix(title, risk=Risk.MANUAL)


def _finding(host: Host, attempt: Attempt, is_large: bool) -> Finding:
    size = size_text(int(attempt.facts.get("bytes", 0)))
    if attempt.what == "execute":
        return Finding(
            "trial-memory.cannot-execute",
            _(
                "{path} cannot be mapped as executable: {why}",
                path=attempt.facts["path"],
                why=attempt.reason,
            ),
            action=Action.CONFIG,
            echo_of=("import-limits.not-executable",),
        )
    needed = ERROR if is_large else WARNING
    # sbrk() of musl (Alpine) always fails and its malloc() works without it, so this is only a warning
    # unless a limit is set.
    grown = ERROR if limit_of(host, "Max data size").soft is not None else WARNING
    code, text, severity = {
        "reserve": ("cannot-reserve", _("a process cannot reserve {size} of address space: {why}"), needed),
        "grow": ("cannot-reserve", _("the data segment of a process cannot grow by {size}: {why}"), grown),
        "touch": ("cannot-allocate", _("a process cannot allocate {size} of memory: {why}"), ERROR),
        "lock": ("cannot-allocate", _("a process cannot lock {size} of memory: {why}"), WARNING),
    }[attempt.what]
    name, flag = LIMITS[attempt.what]
    limit = limit_of(host, name)
    pair = [-1 if value is None else value for value in (limit.soft, limit.hard)]
    is_limited = limit.soft is not None
    return Finding(
        f"trial-memory.{code}",
        text.format(size=size, why=attempt.reason),
        severity=severity,
        evidence=(limit_line(flag, pair),) if is_limited else (),
        action=Action.CONFIG,
        fix=raise_limit(host, flag, pair, pair[0] + 1) if is_limited else None,
        echo_of=CAUSES if attempt.what != "lock" else (),
    )
