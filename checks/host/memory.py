"""Is there memory left, on the machine and in the control group of this job?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import (
    ERROR,
    INFO,
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
from npudoctor.core.sizes import size_text
from npudoctor.facts.system.limits import limit_of, memory_group
from npudoctor.host.resources import Limit

GIB = 1 << 30
SHARE = 0.05


@check(
    "memory",
    scope=Scope.JOB,
    codes={
        "memory.address-space": ERROR,
        "memory.nearly-used": WARNING,
        "memory.limit-nearly-used": WARNING,
        "memory.limit-small": INFO,
        "memory.killed": INFO,
    },
)
def memory(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This machine and this job have memory left.

    ## What it does

    Reads how much memory the machine has available, and every limit from the control group of this shell
    (with `--env-of PID`, of that process) upward: a container, a Slurm job, a user's slice.

    - `memory.address-space`: a process of this shell may map less than 1 GiB (`ulimit -v`); the libraries of
      a framework alone need more.
    - `memory.nearly-used`: less than 5 % of the machine's memory, and less than 4 GiB, is available.
    - `memory.limit-nearly-used`: less than 5 % of the tightest control group's limit, and less than 4 GiB, is
      left. Page cache and other memory that the kernel can reclaim does not count as used; shared memory
      does.
    - `memory.limit-small`: the tightest limit is below 4 GiB, less than the host copy of a model needs.
    - `memory.killed`: the kernel killed a process of the control group because its memory was used up.

    ## Why it matters

    The kernel kills a process that takes the last memory, and the process logs nothing: the other ranks
    report a timeout, and the job's exit status is 137. When `ulimit -v` is reached, libraries fail to load
    and threads fail to start, each with a different error.

    ## References

    Documentation/admin-guide/cgroup-v2.rst of the kernel (memory.max, memory.events); proc_meminfo(5);
    getrlimit(2), RLIMIT_AS.
    """
    machine = host.resources.memory()
    total, available = machine.total, machine.available
    group = memory_group(host)
    yield Facts(
        {
            "bytes": total,
            "available": available,
            "limit": group.limit if group else None,
            "limit_left": group.left if group else None,
        }
    )
    is_low = available < min(SHARE * total, 4 * GIB)
    if is_low and not machine.why_least:
        yield Finding(
            "memory.nearly-used",
            _(
                "only {left} of the machine's {total} of memory is available",
                left=size_text(available),
                total=size_text(total),
            ),
            action=Action.CLEANUP,
        )
    # A group as large as the machine, or larger, limits nothing.
    if group is not None and group.limit < total:
        words = {"path": group.path, "limit": size_text(group.limit), "left": size_text(group.left)}
        evidence = (f"{group.path} limit={group.limit} used={group.used} kills={group.kills}",)
        if group.left < min(SHARE * group.limit, 4 * GIB):
            text = _("the control group's memory limit is {limit}, and only {left} is left")
            yield Finding(
                "memory.limit-nearly-used", text.format(**words), evidence=evidence, action=Action.CONFIG
            )
        if group.limit < 4 * GIB:
            text = _("the control group's memory limit is only {limit}")
            yield Finding("memory.limit-small", text.format(**words), evidence=evidence, action=Action.CONFIG)
        # oom_kill of memory.events (cgroup v2) or memory.oom_control (v1), counted since the group was
        # created.
        if group.kills:
            text = _("the kernel killed a process of this control group because the group ran out of memory")
            yield Finding("memory.killed", text, evidence=evidence)
    yield from _judge_address_space(limit_of(host, "Max address space"))
    if is_low and machine.why_least:
        raise Unknown(machine.why_least, tried_by=("trial-memory",))


def _judge_address_space(limit: Limit) -> Iterator[Finding]:
    """Report an address space limit (ulimit -v) below 1 GiB: the libraries of a framework need more."""
    if limit.soft is None or limit.soft >= GIB:
        return
    # ulimit -v counts KiB, RLIMIT_AS counts bytes.
    hard = "unlimited" if limit.hard is None else str(limit.hard >> 10)
    may_raise = limit.hard is None or limit.hard >= GIB
    title = _("raise the limit in the shell that starts the job")
    later = _("ask whoever starts this session to raise its address space limit (ulimit -v, RLIMIT_AS)")
    steps = (Command(("ulimit", "-Sv", hard)),) if may_raise else ()
    yield Finding(
        "memory.address-space",
        _(
            "a process may map only {limit} of memory: a framework's libraries need more",
            limit=size_text(limit.soft),
        ),
        evidence=(f"ulimit -Sv {limit.soft >> 10}, ulimit -Hv {hard}",),
        action=Action.CONFIG,
        fix=Fix(title if may_raise else later, steps=steps, risk=Risk.MANUAL, needs_root=False),
    )
