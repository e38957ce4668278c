"""What the running kernel grants: memory, CPUs, and the limits of a process. psutil says it.

Not asked of psutil, as it does not tell it: which swap areas there are (it has their sum), and what of a
control group is left.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.host.psutil_door import ask_psutil

# As the kernel calls them in /proc/PID/limits, each at the number that getrlimit(2) has for it.
LIMITS = (
    *("Max cpu time", "Max file size", "Max data size", "Max stack size", "Max core file size"),
    *("Max resident set", "Max processes", "Max open files", "Max locked memory", "Max address space"),
    *("Max file locks", "Max pending signals", "Max msgqueue size", "Max nice priority"),
    *("Max realtime priority", "Max realtime timeout"),
)


@dataclass(frozen=True)
class Memory:
    """Bytes that the machine has, and those that can be taken before it swaps."""

    total: int
    available: int


@dataclass(frozen=True)
class Limit:
    """A soft and a hard limit; None is unlimited."""

    soft: Optional[int]
    hard: Optional[int]


class Resources:
    """The running machine's; CannotTell where nobody can say. `pid`: of which process, 0 is our own."""

    def memory(self) -> Memory:
        """What the whole machine has."""
        figures = ask_psutil(_("the memory"), lambda psutil: psutil.virtual_memory())
        return Memory(figures.total, figures.available)

    def cpus(self, pid: int) -> int:
        """How many CPUs a process may run on."""
        subject = _("the CPUs of process {pid}", pid=pid or os.getpid())
        return len(ask_psutil(subject, lambda psutil: psutil.Process(pid or None).cpu_affinity()))

    def limits(self, pid: int) -> Mapping[str, Limit]:
        """The limits of a process by the kernel's names. Our own Python tells, also where psutil cannot."""
        import resource

        numbers = range(len(LIMITS))
        if not pid:
            pairs = [resource.getrlimit(number) for number in numbers]
        else:
            subject = _("the limits of process {pid}", pid=pid)
            pairs = ask_psutil(
                subject, lambda psutil: [psutil.Process(pid).rlimit(number) for number in numbers]
            )
        finite = [[None if limit == resource.RLIM_INFINITY else limit for limit in pair] for pair in pairs]
        return {name: Limit(soft, hard) for name, (soft, hard) in zip(LIMITS, finite)}
