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
from npudoctor.fixing.actions.endings import ActionFailed, ActionRefused, AlreadyGone
from npudoctor.fixing.actions.syscalls import signal_process
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.steps import SignalProcess
from npudoctor.host import CannotTell, Host
from npudoctor.host.process.pidfds import wait_for_processes
from npudoctor.host.process.processes import parse_stat
from npudoctor.proof.ending import EndingJudge

SPARE = 64  # descriptors for all else that is open
# Without a pidfd there is nothing to poll() on for a process that is not our child.
TURN = 0.05  # seconds between two looks at a process that we have no descriptor of
ENDING = 1.0  # seconds for the end of one that is just ending


@dataclass(frozen=True)
class HeldProcess:
    """A process, and the pidfd by which we hold it; None where the kernel has no pidfds (before 5.3)."""

    mark: ProcessMark
    descriptor: Optional[int]


def end_processes(step: SignalProcess, host: Host, at: Observer) -> None:
    """SIGTERM to all, then SIGKILL to those still running; no signal before all are proven stale."""
    # A fake machine's pids are no processes of this kernel.
    if not host.processes.is_own_namespace() or host.processes.self_pid != os.getpid():
        raise ActionRefused(_("/proc shows a pid namespace other than npudoctor's"))
    with _hold(step, host) as remaining:
        if not remaining:
            raise AlreadyGone
        for number in (signal.SIGTERM, signal.SIGKILL):
            # Proven once more before each of the two signals: ten seconds lie between them.
            living = _require_stale(step, remaining, host.fresh_copy())
            fresh = host.fresh_copy()
            for held in living:
                pid = held.mark.pid
                try:
                    # Between the proof and this signal others were signalled, which takes time.
                    if _is_same(held, step.owner, fresh):
                        with watch_change(at, f"signal {number.name[3:]} to {pid}"):
                            if held.descriptor is None:
                                os.kill(held.mark.pid, number)
                            else:
                                signal_process(held.descriptor, number)
                except ProcessLookupError:
                    continue  # it ended by itself in between
                except PermissionError:
                    raise ActionFailed(
                        _("the kernel does not allow npudoctor to signal process {pid}", pid=pid)
                    ) from None
            remaining = _await_ends(remaining, step.seconds, host)
            if not remaining:
                return
    raise ActionFailed(_why_not_ended(remaining[0].mark.pid, step.seconds, host.fresh_copy()))


@contextmanager
def _hold(step: SignalProcess, host: Host) -> Iterator[list[HeldProcess]]:
    """Open a descriptor of each process that still runs. Only what is read once it is open is certain to be
    of its process.
    """
    with ExitStack() as stack:
        stack.enter_context(_raise_file_limit(len(step.processes)))
        held = []
        for mark in step.processes:
            descriptor = host.pidfds.open(mark.pid) if host.pidfds.is_usable else None
            if descriptor is not None:
                stack.callback(os.close, descriptor)
            # Where pidfds work and none can be opened, the process is gone.
            if _still_runs(mark, host) and (descriptor is not None or not host.pidfds.is_usable):
                held.append(HeldProcess(mark, descriptor))
        yield held


@contextmanager
def _raise_file_limit(count: int) -> Iterator[None]:
    """Allow this many more open files within the block, by the soft limit.

    A job of eight ranks with their workers has over a thousand processes, and 1024 is what a shell allows.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + SPARE
    if soft == resource.RLIM_INFINITY or needed <= soft:
        yield
        return
    # Only root may go above the hard limit.
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise ActionRefused(
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


def _still_runs(mark: ProcessMark, host: Host) -> bool:
    """Return whether a process still runs; ActionRefused when its pid belongs to another process by now."""
    process = host.processes.read_now(mark.pid)
    if process is None:
        if host.processes.is_hidden(mark.pid):
            raise ActionRefused(_("pid {pid} is hidden", pid=mark.pid))
        return False
    if process.started != mark.started:
        raise ActionRefused(_("pid {pid} now belongs to another process", pid=mark.pid))
    return not process.has_exited


def _require_stale(
    step: SignalProcess, held_processes: Sequence[HeldProcess], fresh: Host
) -> list[HeldProcess]:
    """The processes that still run; ActionRefused unless each is the one that was looked at, is proven stale,
    and leaves no child behind.
    """
    endings = EndingJudge(fresh)
    among = {held.mark.pid for held in held_processes}
    living = []
    for held in held_processes:
        pid = held.mark.pid
        reason = endings.why_not(pid)
        child = endings.unproven_child(pid, among)
        if not _is_same(held, step.owner, fresh):
            continue  # it ended by itself in between, which is a reason too
        if reason:
            raise ActionRefused(reason)
        if child is not None:
            raise ActionRefused(
                _(
                    "process {pid} has a child {child} that is not proven stale, or is new",
                    pid=pid,
                    child=child,
                )
            )
        living.append(held)
    return living


def _is_same(held: HeldProcess, owner: int, fresh: Host) -> bool:
    """Return whether it still runs, with the same user and control groups; ActionRefused when with others."""
    mark = held.mark
    identity = (fresh.processes.owner(mark.pid), fresh.processes.cgroups(mark.pid))
    now = fresh.processes.read_now(mark.pid)  # last: what one says that ended since is nothing
    if now is None or now.has_exited or now.started != mark.started:
        return False
    if identity != (owner, mark.cgroups):
        if now.is_exiting and not _await_ends([held], ENDING, fresh):
            return False  # one that is just ending is in no control group any more
        raise ActionRefused(_("process {pid} changed its user or its control group", pid=mark.pid))
    return True


def _await_ends(processes: Sequence[HeldProcess], seconds: float, host: Host) -> list[HeldProcess]:
    """Wait for the ends of processes; return those that still run after these seconds."""
    descriptors = [process.descriptor for process in processes if process.descriptor is not None]
    # poll() on pidfds wakes at the very end of a process.
    if len(descriptors) == len(processes):
        over = wait_for_processes(descriptors, seconds)
        return [process for process in processes if process.descriptor not in over]
    until = time.monotonic() + seconds
    remaining = list(processes)
    while remaining and time.monotonic() < until:
        time.sleep(TURN)
        running = []
        for process in remaining:
            now = host.processes.read_now(process.mark.pid)
            if now is not None and now.started == process.mark.started and not now.has_exited:
                running.append(process)
        remaining = running
    return remaining


def _why_not_ended(pid: int, seconds: float, fresh: Host) -> str:
    """Why a process outlives SIGKILL: one of its threads hangs in the kernel."""
    tasks: Sequence[str] = ()
    with suppress(CannotTell):
        tasks = fresh.running_files.names(f"/proc/{pid}/task")
    for task in tasks:
        state = ""
        # The thread ended since its name was read.
        with suppress(CannotTell, IndexError, ValueError):
            text = fresh.running_files.text(f"/proc/{pid}/task/{task}/stat") or ""
            state = parse_stat(pid, text, 0).state
        if state == "D":
            return _("process {pid} is in uninterruptible sleep: only a reboot ends it", pid=pid)
    return _("process {pid} has not ended {seconds} s after SIGKILL", pid=pid, seconds=f"{seconds:g}")
