"""Reads what the running kernel grants: memory, CPUs, and the limits of a process.

Memory and CPUs come from psutil. Limits do not: for another user's process psutil calls prlimit(2), which
needs CAP_SYS_RESOURCE. Root of a container lacks it, but may read /proc/PID/limits.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, strerror
from npudoctor.host.psutil_door import ask_psutil

# The kernel's names in /proc/PID/limits; the index of each is its number for getrlimit(2).
LIMITS = (
    *("Max cpu time", "Max file size", "Max data size", "Max stack size", "Max core file size"),
    *("Max resident set", "Max processes", "Max open files", "Max locked memory", "Max address space"),
    *("Max file locks", "Max pending signals", "Max msgqueue size", "Max nice priority"),
    *("Max realtime priority", "Max realtime timeout"),
)


@dataclass(frozen=True)
class Memory:
    """Bytes of memory: all that the machine has, and what can be taken before it swaps.

    `why_least`: why more may be available than `available` says; "" if it is exact.
    """

    total: int
    available: int
    why_least: str = ""


@dataclass(frozen=True)
class Limit:
    """A soft and a hard limit, in the unit of its row in /proc/PID/limits; None is unlimited."""

    soft: Optional[int]
    hard: Optional[int]


class Resources:
    """Memory, CPUs and limits of the running machine; each method raises CannotTell if they are unknown.

    `pid`: the process that is asked about, 0 for our own.
    """

    def memory(self) -> Memory:
        """The memory of the whole machine, not of the control group."""
        try:
            figures = ask_psutil(_("the memory"), lambda psutil: psutil.virtual_memory())
        except CannotTell as error:
            if isinstance(error.__cause__, (ImportError, MemoryError, NotImplementedError)):
                raise  # psutil itself is not there, which has a remedy
            # sysinfo(2) needs no /proc, and counts what the kernel would give back as taken.
            try:
                page, total, free = map(os.sysconf, ("SC_PAGE_SIZE", "SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
            except (OSError, ValueError):
                raise error from None
            # sysconf says -1 for what it does not know.
            if total <= 0 or free < 0:
                raise
            return Memory(page * total, page * free, error.reason)
        return Memory(figures.total, figures.available)

    def cpus(self, pid: int) -> int:
        """The number of CPUs that a process may run on, by its affinity."""
        subject = _("the CPUs of process {pid}", pid=pid or os.getpid())
        return len(ask_psutil(subject, lambda psutil: psutil.Process(pid or None).cpu_affinity()))

    def limits(self, pid: int) -> Mapping[str, Limit]:
        """The limits of a process by the kernel's names; our own need no /proc."""
        if not pid:
            import resource

            pairs = [resource.getrlimit(number) for number in range(len(LIMITS))]
            finite = [
                [None if limit == resource.RLIM_INFINITY else limit for limit in pair] for pair in pairs
            ]
            return {name: Limit(soft, hard) for name, (soft, hard) in zip(LIMITS, finite)}
        path = f"/proc/{pid}/limits"
        try:
            with open(path, encoding="ascii") as file:
                # Rows of fs/proc/base.c: "%-25s %-20s %-20s %-10s", that is name, soft, hard and unit.
                rows = {line[:26].rstrip(): line[26:].split() for line in file}
        except (OSError, ValueError) as error:
            why = strerror(getattr(error, "errno", None) or errno.EIO)
            raise CannotTell(_("{path} cannot be read: {why}", path=path, why=why)) from error
        return {
            name: Limit(*(int(word) if word.isdigit() else None for word in rows[name][:2]))
            for name in LIMITS
            # A kernel older than a limit has no row for it.
            if len(rows.get(name, ())) >= 2
        }
