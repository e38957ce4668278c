"""The findings of the check stale-processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor import INFO, Action, Command, Finding, Fix, Host, Risk, _
from npudoctor.host.process.processes import Process
from npudoctor.host.process.users import user_names
from npudoctor.proof.two_samples import Holder

if TYPE_CHECKING:
    from npudoctor import SignalProcess
    from npudoctor.proof.stale import StaleJudge

SHOWN = 20  # processes of one finding
LONGEST = 120  # characters of a command line


def left_behind(host: Host, stale: Mapping[int, str], judge: StaleJudge) -> Iterator[Finding]:
    """Those that outlived the control group's owner: of each job or container, and of each user, what may
    be ended; and what is shown only, with the reason."""
    if not stale:
        return
    from npudoctor.checks.leftovers._stale_processes_ending import sorted_out

    groups, kept = sorted_out(host, stale, judge)
    for step in groups:
        found = {mark.pid: stale[mark.pid] for mark in reversed(step.processes)}
        yield _left_behind(host, found, _signalling(host, step))
    if kept:
        said = {pid: f"{stale[pid]}; {why}" for pid, why in kept.items()}
        yield _left_behind(host, said, _looking(list(kept)))


def _left_behind(host: Host, found: Mapping[int, str], fix: Fix) -> Finding:
    return Finding(
        "stale-processes.left-behind",
        _("processes outlived their Slurm job or container: {pids}").format(pids=_named(host, found)),
        evidence=_lines(host, found),
        action=Action.CLEANUP,
        fix=fix,
    )


def outlived_job(host: Host, over: Mapping[int, str]) -> Iterator[Finding]:
    """Those that outlived the job that their variables name."""
    if over:
        over = dict(sorted(over.items()))  # they were found job by job
        text = _("processes were started in a Slurm job that is over: {pids}")
        yield Finding(
            "stale-processes.outlived-job",
            text.format(pids=_named(host, over)),
            evidence=_lines(host, over),
            fix=_looking(list(over)),
        )


def stuck(host: Host, holders: Sequence[Holder]) -> Iterator[Finding]:
    """Those that hang in the kernel: by themselves those that hold a device."""
    for with_device in (True, False):
        found = {one.process.pid: ", ".join(one.nodes) for one in holders if bool(one.nodes) is with_device}
        if not found:
            continue
        text = _("processes hang in the kernel (state D) and hold a device: {pids}")
        if not with_device:
            text = _("processes hang in the kernel (state D): {pids}")
        yield Finding(
            "stale-processes.stuck",
            text.format(pids=_named(host, found)),
            severity=None if with_device else INFO,
            evidence=_lines(host, found),
            action=Action.REBOOT if with_device else Action.NONE,
            fix=_looking(list(found)),
        )


def zombie(host: Host, zombies: Sequence[Process]) -> Iterator[Finding]:
    """Those that ended and were not fetched."""
    if zombies:
        text = _("processes ended, and their parents did not fetch them: {pids}")
        why = {process.pid: _why_there(host, process) for process in zombies}
        parents = sorted({process.parent for process in zombies if process.parent > 1})
        yield Finding(
            "stale-processes.zombie",
            text.format(pids=_named(host, why)),
            evidence=_lines(host, why),
            fix=_looking(parents or list(why)),
        )


def compile_worker(host: Host, orphans: Sequence[Process]) -> Iterator[Finding]:
    """Compilers of operators that nobody waits for."""
    if orphans:
        text = _("processes compile operators for a process that is gone: {pids}")
        found = {process.pid: "" for process in orphans}
        yield Finding(
            "stale-processes.compile-worker",
            text.format(pids=_named(host, found)),
            evidence=_lines(host, found),
            fix=_ending(host, list(found)),
        )


def idle(host: Host, holders: Sequence[Holder]) -> Iterator[Finding]:
    """Those that hold a device and do nothing: named, and no more."""
    if holders:
        text = _("processes hold a device, and used neither a processor nor the device at two looks: {pids}")
        found = {one.process.pid: ", ".join(one.nodes) for one in holders}
        yield Finding(
            "stale-processes.idle",
            text.format(pids=_named(host, found)),
            evidence=(*_lines(host, found), _("an idle server, or a rank that waits, looks the same")),
            fix=_looking(list(found)),
        )


def _why_there(host: Host, process: Process) -> str:
    if process.threads > 1:
        text = _("{count} threads of it live on")
        return text.format(count=process.threads - 1)
    text = _("its parent is process {pid} ({program})")
    return text.format(pid=process.parent, program=_name(host, process.parent))


def _named(host: Host, pids: Iterable[int], most: int = 4) -> str:
    """Some of them, and how many more."""
    told = [f"{pid} ({_name(host, pid)})" for pid in pids]
    return ", ".join(told[:most]) + (f", ... (+{len(told) - most})" if len(told) > most else "")


def _name(host: Host, pid: int) -> str:
    process = host.processes.all().get(pid)
    return process.name if process else "?"


def _lines(host: Host, found: Mapping[int, str]) -> tuple[str, ...]:
    """A line for each process: whose, since when, what it runs, and what is said of it."""
    names = user_names(host.files)
    lines = [_line(host, pid, why, names) for pid, why in list(found.items())[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(_("and {count} more processes").format(count=len(found) - SHOWN))
    return tuple(lines)


def _line(host: Host, pid: int, why: str, names: Mapping[int, str]) -> str:
    process = host.processes.all()[pid]
    text = _("pid {pid}, user {user}, running for {minutes} minutes: {line}")
    line = " ".join(host.processes.arguments(pid) or (process.name,))
    said = text.format(
        pid=pid, user=names.get(process.uid, str(process.uid)), minutes=_minutes(host, process),
        line=line if len(line) <= LONGEST else f"{line[:LONGEST]}...",
    )  # fmt: skip
    return f"{said} - {why}" if why else said


def _minutes(host: Host, process: Process) -> int:
    began = host.system.boot_time() + process.started / host.processes.ticks
    return max(0, int((host.clock.now() - began) // 60))


def _looking(pids: Sequence[int], title: Optional[str] = None) -> Fix:
    """A line to look at them, and none to end them."""
    listed = ",".join(map(str, pids[:SHOWN]))
    look = Command(("ps", "-o", "pid,ppid,user,stat,lstart,wchan,args", "-p", listed))
    return Fix(title or _("look at them"), steps=(look,), risk=Risk.MANUAL, needs_root=False)


def _signalling(host: Host, step: SignalProcess) -> Fix:
    """The step that ends just them."""
    return Fix(
        _("end them: that cannot be undone"),
        steps=(step,),
        risk=Risk.CAUTION,
        needs_root=step.owner != host.identity.euid,
    )


def _ending(host: Host, pids: Sequence[int]) -> Fix:
    """A line to look at them, and one to end just them."""
    others = any(host.processes.all()[pid].uid != host.identity.euid for pid in pids)
    return Fix(
        _("look at them first, then end them: that cannot be undone"),
        steps=(*_looking(pids).steps, Command(("kill", *map(str, pids[:SHOWN])))),
        risk=Risk.MANUAL,
        needs_root=others,
    )
