"""Whether the process that made a segment, or wrote a log, is dead."""

from __future__ import annotations

import enum
from typing import Callable

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_server import PROGRAMS
from npudoctor.host import Host

CLOCK_SLACK = 2.0  # seconds by which the boot clock and the wall clock may disagree
LARGEST_PID = 1 << 22  # what the kernel ever gives out (PID_MAX_LIMIT); a log's name may say anything


class Life(enum.Enum):
    """Whether a process is dead, alive, or neither is certain."""

    DEAD = "dead"
    ALIVE = "alive"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CreatorState:
    """Whether the creator of something lives, and how that is known."""

    life: Life
    why: str


def creator_life(
    host: Host, pid: int, since: float, may_be: Callable[[str], bool] = PROGRAMS.__contains__
) -> CreatorState:
    """Judge a pid that was alive at `since` (epoch seconds). `may_be`: whether the creator could have this
    program.

    Dead: there is no such process, it is a zombie, or the pid now belongs to a process that began after
    `since`.
    """
    # cpid is 0 where the creator is in a pid namespace that ours does not see.
    if not 0 < pid <= LARGEST_PID:
        return CreatorState(
            Life.UNKNOWN, _("its creator is in a pid namespace that is not visible from this one")
        )
    processes = host.processes
    if not processes.is_own_namespace():
        return CreatorState(Life.UNKNOWN, _("/proc shows a pid namespace other than npudoctor's"))
    process = processes.read_now(pid)
    if process is None:
        # hidepid: /proc shows nothing, and kill(pid, 0) still says that it lives.
        if processes.is_hidden(pid):
            return CreatorState(Life.ALIVE, _("process {pid} is alive but hidden from this user", pid=pid))
        return CreatorState(Life.DEAD, _("process {pid} is gone", pid=pid))
    if process.has_exited:
        return CreatorState(Life.DEAD, _("process {pid} is a zombie", pid=pid))
    began = host.system.boot_time() + process.started / processes.ticks
    if began > since + CLOCK_SLACK:
        # A clock that was set in between looks like this too; then it may be the creator after all.
        program = processes.program(pid)
        if program is None or may_be(program):
            return CreatorState(
                Life.UNKNOWN, _("process {pid} may be its creator, if the clock was changed", pid=pid)
            )
        return CreatorState(Life.DEAD, _("pid {pid} belongs to a process that started later", pid=pid))
    return CreatorState(Life.ALIVE, _("process {pid} is alive", pid=pid))
