"""Does a job get the memory that it takes in its first minute?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Facts,
    Finding,
    Host,
    Scope,
    Unknown,
    _,
    check,
)
from npudoctor.checks.trial._limits import limit_line, memory_left, raise_limit
from npudoctor.checks.trial._trying import allowed, incomplete
from npudoctor.core.sizes import size_text
from npudoctor.facts.job.process import frameworks
from npudoctor.facts.system.limits import limit_of
from npudoctor.trial.trials import Attempt

MIB, GIB = 1 << 20, 1 << 30
# torch, torch_npu and MindSpore reserve tens of GiB of addresses for a device; nothing of it is touched.
RESERVED, RESERVED_WITHOUT = 64 * GIB, 4 * GIB
HEADROOM = GIB  # below this nothing is touched: the first to be killed should not be somebody else
# What refuses each attempt first, by the name in /proc/PID/limits, and its flag of ulimit.
LIMITS = {
    "reserve": ("Max address space", "-v"),
    "grow": ("Max data size", "-d"),
    "touch": ("Max address space", "-v"),
    "lock": ("Max locked memory", "-l"),
}
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
    """A job gets the memory that it takes in its first minute.

    ## What it does

    In a child of the job's Python, with the job's variables, limits and control group: reserves address
    space without touching it (64 GiB where torch or MindSpore for an accelerator is installed, else 4 GiB),
    grows the data segment by 16 MiB, touches 256 MiB, locks 64 KiB, and maps a library so that it can be
    executed. All of it is given back at once. Where the machine or the control group has less than 1 GiB left
    nothing is touched, and the row says so.

    - `trial-memory.cannot-reserve`: the address space or the data segment cannot grow; a warning where it
      is the 4 GiB of address space, as small jobs start with less.
    - `trial-memory.cannot-allocate`: 256 MiB cannot be touched; or 64 KiB cannot be locked, which only some
      jobs need: a warning.
    - `trial-memory.cannot-execute`: a library cannot be mapped as the loader maps it.

    As root it is skipped, unless `--as-user` or `--env-of` says whose job it is.

    ## Why it matters

    Without this a job dies with MemoryError, "failed to map segment from shared object", or by signal 9, and
    which limit or group it was that refused nobody says.

    ## Fix safety

    Shown only: a line for the shell that starts the job, where its hard limit allows it.

    ## References

    getrlimit(2); mmap(2), MAP_NORESERVE; mlock(2); proc_sys_vm(5), overcommit_memory.
    """
    allowed(host)
    accelerated = host.npu_wanted() or bool(host.gpus.usable)
    # What is reserved at once for a device; without one less is enough for some jobs.
    large = accelerated and bool(frameworks(host, "torch", "mindspore"))
    left = memory_left(host)
    trial = host.trials.tried(
        "memory",
        reserve=RESERVED if large else RESERVED_WITHOUT,
        touch=left >= HEADROOM,
    )
    yield Facts({"left": left, "tried": [attempt.what for attempt in trial.attempts]})
    for attempt in trial.refused():
        if attempt.what == "ctypes":
            raise Unknown(_("this Python cannot ask for memory: {why}", why=attempt.reason))
        yield _finding(host, attempt, large)
    if trial.died == "touch" and trial.signal == 9:
        yield Finding(
            "trial-memory.cannot-allocate",
            _("the kernel ended the trial when it touched {size} of memory", size=size_text(256 * MIB)),
            action=Action.CONFIG,
        )
        return
    incomplete(trial)
    if left < HEADROOM and not trial.refused():
        raise Unknown(
            _("only {left} of memory is left here: the trial did not touch any", left=size_text(left))
        )


def _finding(host: Host, attempt: Attempt, large: bool) -> Finding:
    size = size_text(int(attempt.facts.get("bytes", 0)))
    if attempt.what == "execute":
        return Finding(
            "trial-memory.cannot-execute",
            _(
                "{path} cannot be mapped so that it can be executed: {why}",
                path=attempt.facts["path"],
                why=attempt.reason,
            ),
            action=Action.CONFIG,
            echo_of=("import-limits.not-executable",),
        )
    needed = ERROR if large else WARNING
    # The C library of Alpine grows no data segment, and takes memory otherwise.
    grown = ERROR if limit_of(host, "Max data size").soft is not None else WARNING
    code, text, severity = {
        "reserve": ("cannot-reserve", _("a process cannot reserve {size} of address space: {why}"), needed),
        "grow": ("cannot-reserve", _("the data segment of a process cannot grow by {size}: {why}"), grown),
        "touch": ("cannot-allocate", _("a process cannot take {size} of memory: {why}"), ERROR),
        "lock": ("cannot-allocate", _("a process cannot lock {size} of memory: {why}"), WARNING),
    }[attempt.what]
    name, flag = LIMITS[attempt.what]
    limit = limit_of(host, name)
    pair = [-1 if value is None else value for value in (limit.soft, limit.hard)]
    limited = limit.soft is not None
    return Finding(
        f"trial-memory.{code}",
        text.format(size=size, why=attempt.reason),
        severity=severity,
        evidence=(limit_line(flag, pair),) if limited else (),
        action=Action.CONFIG,
        fix=raise_limit(host, flag, pair, pair[0] + 1) if limited else None,
        echo_of=CAUSES if attempt.what != "lock" else (),
    )
