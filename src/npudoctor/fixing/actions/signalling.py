"""Ends stale processes by their pidfds; each is proven stale once more right before either signal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.marks import ProcessMark
from npudoctor.core.messages import _
from npudoctor.fixing.actions.endings import Failed, Gone, Refused
from npudoctor.fixing.actions.syscalls import signal_process
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.steps import SignalProcess
from npudoctor.host import CannotTell, Host
from npudoctor.host.process.pidfds import wait_for_processes
from npudoctor.host.process.processes import parse_stat
from npudoctor.proof.ending import Endings

SPARE = 64  # descriptors for all else that is open
TURN = 0.05  # seconds between two looks at a process that we have no descriptor of
ENDING = 1.0  # seconds for the end of one that is just ending


@dataclass(frozen=True)
class HeldProcess:
    """A process and the descriptor by which we hold it; None where the kernel has none (before 5.3)."""

    mark: ProcessMark
    descriptor: Optional[int]


def end_processes(step: SignalProcess, host: Host, at: Observer) -> None:
    """SIGTERM to all, then SIGKILL to those still running; no signal before all are proven stale."""
    # A fake machine's pids are no processes of this kernel.
    if not host.processes.is_own_namespace() or host.processes.self_pid != os.getpid():
        raise Refused(_("/proc shows a pid namespace other than npudoctor's"))
    with _hold(step, host) as left:
        if not left:
            raise Gone
        for number in (signal.SIGTERM, signal.SIGKILL):
            living = _still_stale(step, left, host.fresh_copy())
            fresh = host.fresh_copy()
            for held in living:
                pid = held.mark.pid
                try:
                    if _is_same(held, step.owner, fresh):
                        with watch_change(at, f"signal {number.name[3:]} to {pid}"):
                            if held.descriptor is None:
                                os.kill(held.mark.pid, number)
                            else:
                                signal_process(held.descriptor, number)
                except ProcessLookupError:
                    continue  # it ended by itself in between
                except PermissionError:
                    raise Failed(
                        _("the kernel does not allow npudoctor to signal process {pid}", pid=pid)
                    ) from None
            left = _await_ends(left, step.seconds, host)
            if not left:
                return
    raise Failed(_why_there(left[0].mark.pid, step.seconds, host.fresh_copy()))


@contextmanager
def _hold(step: SignalProcess, host: Host) -> Iterator[list[HeldProcess]]:
    """Those that still run. Only what is seen once a descriptor is open is known to be of its process."""
    with ExitStack() as stack:
        stack.enter_context(_room(len(step.processes)))
        held = []
        for mark in step.processes:
            descriptor = host.pidfds.open(mark.pid) if host.pidfds.is_usable else None
            if descriptor is not None:
                stack.callback(os.close, descriptor)
            if _runs(mark, host) and (descriptor is not None or not host.pidfds.is_usable):
                held.append(HeldProcess(mark, descriptor))
        yield held


@contextmanager
def _room(count: int) -> Iterator[None]:
    """Where so many descriptors may be open: a job of eight ranks with their workers has over a thousand
    processes, and 1024 is what a shell allows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + SPARE
    if soft == resource.RLIM_INFINITY or needed <= soft:
        yield
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise Refused(
            _(
                "cannot hold {count} processes open at once: this shell allows {limit} open files (ulimit "
                "-n)",
                count=count,
                limit=hard,
            )
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _runs(mark: ProcessMark, host: Host) -> bool:
    """Whether it runs; Refused when its pid is another process's by now."""
    process = host.processes.read_now(mark.pid)
    if process is None:
        if host.processes.is_hidden(mark.pid):
            raise Refused(_("pid {pid} is hidden", pid=mark.pid))
        return False
    if process.started != mark.started:
        raise Refused(_("pid {pid} now belongs to another process", pid=mark.pid))
    return not process.has_exited


def _still_stale(step: SignalProcess, left: Sequence[HeldProcess], fresh: Host) -> list[HeldProcess]:
    """Those that still run: each is the one that was looked at, proven stale, and leaves no child behind."""
    endings = Endings(fresh)
    among = {held.mark.pid for held in left}
    living = []
    for held in left:
        pid = held.mark.pid
        reason = endings.why_not(pid)
        child = endings.unproven_child(pid, among)
        if not _is_same(held, step.owner, fresh):
            continue  # it ended by itself in between, which is a reason too
        if reason:
            raise Refused(reason)
        if child is not None:
            raise Refused(
                _(
                    "process {pid} has a child {child} that is not proven stale, or is new",
                    pid=pid,
                    child=child,
                )
            )
        living.append(held)
    return living


def _is_same(held: HeldProcess, owner: int, fresh: Host) -> bool:
    """Whether it still runs, with the same user and control groups; Refused when with others."""
    mark = held.mark
    seen = (fresh.processes.owner(mark.pid), fresh.processes.cgroups(mark.pid))
    now = fresh.processes.read_now(mark.pid)  # last: what one says that ended since is nothing
    if now is None or now.has_exited or now.started != mark.started:
        return False
    if seen != (owner, mark.cgroups):
        if now.is_exiting and not _await_ends([held], ENDING, fresh):
            return False  # one that is just ending is in no control group any more
        raise Refused(_("process {pid} changed its user or its control group", pid=mark.pid))
    return True


def _await_ends(held: Sequence[HeldProcess], seconds: float, host: Host) -> list[HeldProcess]:
    """Those that have not ended after so long."""
    descriptors = [process.descriptor for process in held if process.descriptor is not None]
    if len(descriptors) == len(held):
        over = wait_for_processes(descriptors, seconds)
        return [process for process in held if process.descriptor not in over]
    until = time.monotonic() + seconds
    left = list(held)
    while left and time.monotonic() < until:
        time.sleep(TURN)
        running = []
        for process in left:
            now = host.processes.read_now(process.mark.pid)
            if now is not None and now.started == process.mark.started and not now.has_exited:
                running.append(process)
        left = running
    return left


def _why_there(pid: int, seconds: float, fresh: Host) -> str:
    """Why a process outlives SIGKILL: one of its threads, if not all of them, hangs in the kernel."""
    tasks: Sequence[str] = ()
    with suppress(CannotTell):
        tasks = fresh.running_files.names(f"/proc/{pid}/task")
    for task in tasks:
        state = ""
        with suppress(CannotTell, IndexError, ValueError):
            text = fresh.running_files.text(f"/proc/{pid}/task/{task}/stat") or ""
            state = parse_stat(pid, text, 0).state
        if state == "D":
            return _("process {pid} is in uninterruptible sleep: only a reboot ends it", pid=pid)
    return _("process {pid} has not ended {seconds} s after SIGKILL", pid=pid, seconds=f"{seconds:g}")
