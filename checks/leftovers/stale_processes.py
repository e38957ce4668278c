"""Processes that outlived their job or container, hang in the kernel, or hold a device and do nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
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
    SignalProcess,
    Unknown,
    _,
    check,
)
from npudoctor.facts.job.expected_accelerator import gpu_here, npu_here
from npudoctor.host import CannotTell
from npudoctor.host.users.accounts import user_names

if TYPE_CHECKING:
    from npudoctor.host.process.processes import Process
    from npudoctor.proof.stale import StaleJudge
    from npudoctor.proof.two_samples import DeviceHolder


@check(
    "stale-processes",
    scope=Scope.NODE,
    tags={"processes", "slurm"},
    quick=False,
    codes={
        "stale-processes.left-behind": WARNING,
        "stale-processes.outlived-job": INFO,
        "stale-processes.stuck": WARNING,
        "stale-processes.zombie": INFO,
        "stale-processes.compile-worker": INFO,
        "stale-processes.idle": INFO,
    },
)
def stale_processes(host: Host) -> Iterator[Union[Finding, Facts]]:
    """No process is stale or stuck in the kernel.

    ## What it does

    Looks for processes that outlived their job or container, are stuck in the kernel, or hold a device
    without using it. A missing parent proves nothing: a program started with nohup, tmux or docker exec has
    none either. The findings:

    - `stale-processes.left-behind`: the process is in the control group of a Slurm job that has no living
      slurmstepd on this node, or of a container whose shim or conmon is gone. A process cannot leave its
      control group. Not reported if Slurm says that the job is not over: between two of its steps it has no
      slurmstepd here.
    - `stale-processes.outlived-job`: the process was started with SLURM_JOB_ID of a job that Slurm no longer
      knows or says is over; it is in no control group of a job, and no slurmstepd of that job lives here.
    - `stale-processes.stuck`: the process is in state D in two samples 2 s apart and used no CPU time in
      between. A warning if it holds a device, otherwise information, because a slow disk looks the same.
    - `stale-processes.zombie`: a training process has ended and its parent has not reaped it in two samples,
      or its other threads live on and keep what it held. A signal has no effect: its parent must end.
    - `stale-processes.compile-worker`: the process compiles operators (MindSpore's kernel_build_server,
      CANN's pool of compilers), and the process that it compiles for is gone.
    - `stale-processes.idle`: the process has a device open, but used neither CPU time nor the AI core (or the
      GPU) in two samples. An idle server and a rank that waits for others look the same, so the process is
      only named. If the load of the device is unknown, nothing is reported.

    Processes of tmux, screen, systemd --user and notebooks, and the ancestors of npudoctor, are never
    reported as left over or idle; processes of a system service are never reported as idle. Only root sees
    what other users have open. Inside a container, or where processes are hidden, nothing can be proven; the
    result is unknown if a process is found for which this matters. `--user` limits the check to one owner,
    `--job` to one Slurm job.

    ## Why it matters

    A process that was left behind holds devices, ports and memory, and the next job fails because of that. A
    process that is stuck in the driver holds its device until a reboot.

    ## Fix safety

    `fix` with `--risk caution` ends the processes of `stale-processes.left-behind`: SIGTERM, a wait of 10 s,
    then SIGKILL for those that remain; children before their parents; each one is held by a descriptor
    (pidfd) and verified again right before the signal. What it had in memory is lost. Not ended are a process
    of a job that Slurm (scontrol) does not report as over, a process with a child that is not proven stale, a
    process in somebody's session or login, a process with the rights of several users, and, unless root names
    the owner with `--owner`, processes of other users. If the kernel has no pidfd (before 5.3), `--yes` ends
    nothing.

    Everything else is shown only, and never for all programs of a name: `pkill -9 python` ends the jobs of
    all users. Look at a process before you end it: that cannot be undone.

    ## References

    proc_pid_stat(5), cgroups(7), Slurm's cgroup guide, scontrol(1); the NPU process leaks of dlrover 1283,
    1284, 1331.
    """
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.proof.stale import StaleJudge

    processes = host.processes.by_pid()
    if not host.options.only_user and not host.options.only_job and _has_nothing_left(host, processes):
        yield Facts({"processes": len(processes), "left_behind": 0, "device_holders": 0})
        return
    from npudoctor.facts.leftovers.compilers import is_orphaned_compiler
    from npudoctor.facts.leftovers.sessions import session_of
    from npudoctor.proof.ended_jobs import ProcessSelection, processes_of_ended_jobs
    from npudoctor.proof.two_samples import sample_twice

    selection = ProcessSelection(host)
    living = [
        process
        for process in host.processes.by_pid().values()
        if selection(process) and not process.has_exited
    ]
    judge = StaleJudge(host)
    proofs = {
        process.pid: judge.staleness(process.pid) for process in living if selection.is_grouped(process.pid)
    }
    # Processes of tmux, screen, systemd --user and notebooks outlive a login on purpose.
    stale = {pid: proof.why for pid, proof in proofs.items() if proof.proven and not session_of(host, pid)}
    yield from _report_left_behind(host, stale, judge)
    reason_by_pid = processes_of_ended_jobs(host, judge, [process.pid for process in living])
    yield from _report_outlived_job(host, reason_by_pid)
    orphans = [process for process in living if is_orphaned_compiler(host, process)]
    reported_pids = {*stale, *reason_by_pid}
    yield from _report_compile_workers(
        host,
        [
            process
            for process in orphans
            if process.pid not in reported_pids and not session_of(host, process.pid)
        ],
    )
    samples = sample_twice(host, selection)
    yield Facts({"processes": len(living), "left_behind": len(stale), "device_holders": samples.holders})
    yield from _report_stuck(host, samples.stuck)
    yield from _report_zombies(host, samples.zombies)
    yield from _report_idle(
        host, [holder for holder in samples.idle if holder.process.pid not in reported_pids]
    )
    if proofs and judge.why_blind:
        raise Unknown(
            _(
                "could not determine whether a process has outlived its job or container: {why}",
                why=judge.why_blind,
            ),
            advisory=True,
        )


# Parts of the control group paths of Slurm jobs and containers.
_GROUPS = ("job_", "docker", "containerd", "libpod", "kubepods")
# Besides process 1, a child subreaper such as systemd --user becomes the parent of orphans (prctl(2)).
_ADOPTERS = ("systemd", "init")
# Programs that manage the control groups of jobs and containers, by the beginnings of their names.
_KEEPERS = ("slurm", "docker", "containerd", "conmon", "podman", "crio", "kubelet")


def _has_nothing_left(host: Host, processes: Mapping[int, Process]) -> bool:
    """Whether a cheap first look rules out stale processes, as on most machines: no device, no manager of
    jobs or containers, no dead or stuck process, and no orphaned Python process."""
    try:
        if npu_here(host) or gpu_here(host) or host.commands.find("scontrol") is not None:
            return False
    except CannotTell:  # what cannot be seen may be there
        return False
    return not any(_may_matter(host, process, processes) for process in processes.values())


def _may_matter(host: Host, process: Process, processes: Mapping[int, Process]) -> bool:
    name = process.name.lower()
    # Zombie, uninterruptible sleep, dead (proc_pid_stat(5)).
    if process.state in "ZDXx" or name.startswith(_KEEPERS):
        return True
    parent = processes.get(process.parent)
    if parent is not None and parent.pid != 1 and parent.name not in _ADOPTERS:
        return False
    # If the manager of a job or a container died, at least one process of that control group is an orphan.
    paths = host.processes.cgroups(process.pid)
    return (
        name.startswith("python") or paths is None or any(word in path for path in paths for word in _GROUPS)
    )


SHOWN = 20  # processes of one finding
LONGEST = 120  # characters of a command line


def _report_left_behind(host: Host, stale: Mapping[int, str], judge: StaleJudge) -> Iterator[Finding]:
    """Report processes that outlived their job or container: one finding with a fix for each job and user,
    and one for the processes that are only shown, with the reason."""
    if not stale:
        return

    groups, why_by_pid = _group_by_owner(host, stale, judge)
    for step in groups:
        details = {mark.pid: stale[mark.pid] for mark in reversed(step.processes)}
        yield _left_behind_finding(host, details, _signal_fix(host, step))
    if why_by_pid:
        reasons = {pid: f"{stale[pid]}; {why}" for pid, why in why_by_pid.items()}
        yield _left_behind_finding(host, reasons, _inspection_fix(list(why_by_pid)))


def _left_behind_finding(host: Host, details: Mapping[int, str], fix: Fix) -> Finding:
    return Finding(
        "stale-processes.left-behind",
        _("processes outlived their Slurm job or container: {pids}", pids=_name_some(host, details)),
        evidence=_lines(host, details),
        action=Action.CLEANUP,
        fix=fix,
    )


def _report_outlived_job(host: Host, reason_by_pid: Mapping[int, str]) -> Iterator[Finding]:
    """Report processes whose SLURM_JOB_ID names a job that is over. `reason_by_pid`: why each is reported."""
    if reason_by_pid:
        reason_by_pid = dict(sorted(reason_by_pid.items()))  # they were found job by job
        yield Finding(
            "stale-processes.outlived-job",
            _(
                "processes were started in a Slurm job that has ended: {pids}",
                pids=_name_some(host, reason_by_pid),
            ),
            evidence=_lines(host, reason_by_pid),
            fix=_inspection_fix(list(reason_by_pid)),
        )


def _report_stuck(host: Host, holders: Sequence[DeviceHolder]) -> Iterator[Finding]:
    """Report processes stuck in state D, those that hold a device in a finding of their own."""
    for with_device in (True, False):
        details = {
            holder.process.pid: ", ".join(holder.nodes)
            for holder in holders
            if bool(holder.nodes) is with_device
        }
        if not details:
            continue
        text = _("processes are stuck in the kernel (state D) and hold a device: {pids}")
        if not with_device:
            text = _("processes are stuck in the kernel (state D): {pids}")
        yield Finding(
            "stale-processes.stuck",
            text.format(pids=_name_some(host, details)),
            # A process that waits for a slow disk or an NFS server looks the same.
            severity=None if with_device else INFO,
            evidence=_lines(host, details),
            action=Action.REBOOT if with_device else Action.NONE,
            fix=_inspection_fix(list(details)),
        )


def _report_zombies(host: Host, zombies: Sequence[Process]) -> Iterator[Finding]:
    """Report processes that ended and were not reaped by their parent."""
    if zombies:
        why = {
            process.pid: _("{count} of its threads are still alive", count=process.threads - 1)
            if process.threads > 1
            else _(
                "its parent is process {pid} ({program})",
                pid=process.parent,
                program=_program_name(host, process.parent),
            )
            for process in zombies
        }
        parents = sorted({process.parent for process in zombies if process.parent > 1})
        yield Finding(
            "stale-processes.zombie",
            _(
                "processes have ended, but their parents have not reaped them: {pids}",
                pids=_name_some(host, why),
            ),
            evidence=_lines(host, why),
            fix=_inspection_fix(parents or list(why)),
        )


def _report_compile_workers(host: Host, orphans: Sequence[Process]) -> Iterator[Finding]:
    """Report compilers of operators whose client no longer exists."""
    if orphans:
        details = {process.pid: "" for process in orphans}
        # A line to look at them, and one to end just them.
        pids = list(details)
        has_foreign_owner = any(host.processes.by_pid()[pid].uid != host.identity.euid for pid in pids)
        yield Finding(
            "stale-processes.compile-worker",
            _(
                "processes compile operators for a process that no longer exists: {pids}",
                pids=_name_some(host, details),
            ),
            evidence=_lines(host, details),
            fix=Fix(
                _("inspect them first, then end them; this cannot be undone"),
                steps=(*_inspection_fix(pids).steps, Command(("kill", *map(str, pids[:SHOWN])))),
                risk=Risk.MANUAL,
                needs_root=has_foreign_owner,
            ),
        )


def _report_idle(host: Host, holders: Sequence[DeviceHolder]) -> Iterator[Finding]:
    """Report processes that hold a device and did nothing in two samples. They are only named."""
    if holders:
        details = {holder.process.pid: ", ".join(holder.nodes) for holder in holders}
        yield Finding(
            "stale-processes.idle",
            _(
                "processes hold a device but used neither CPU nor the device in two samples: {pids}",
                pids=_name_some(host, details),
            ),
            evidence=(*_lines(host, details), _("an idle server or a waiting rank looks the same")),
            fix=_inspection_fix(list(details)),
        )


def _name_some(host: Host, pids: Iterable[int], most: int = 4) -> str:
    """Return the first `most` processes with their names, and how many more there are."""
    labels = [f"{pid} ({_program_name(host, pid)})" for pid in pids]
    return ", ".join(labels[:most]) + (f", ... (+{len(labels) - most})" if len(labels) > most else "")


def _program_name(host: Host, pid: int) -> str:
    process = host.processes.by_pid().get(pid)
    return process.name if process else "?"


def _lines(host: Host, details: Mapping[int, str]) -> tuple[str, ...]:
    """Return a line for each process: owner, age, command line, and why it is reported."""

    names = user_names(host.files)
    lines = [_line(host, pid, why, names) for pid, why in list(details.items())[:SHOWN]]
    if len(details) > SHOWN:
        lines.append(_("and {count} more processes", count=len(details) - SHOWN))
    return tuple(lines)


def _line(host: Host, pid: int, why: str, names: Mapping[int, str]) -> str:
    process = host.processes.by_pid()[pid]
    line = " ".join(host.processes.arguments(pid) or (process.name,))
    # starttime counts clock ticks since boot (proc_pid_stat(5)).
    began = host.system.boot_time() + process.started / host.processes.ticks
    sentence = _(
        "pid {pid}, user {user}, running for {minutes} minutes: {line}",
        pid=pid,
        user=names.get(process.uid, str(process.uid)),
        minutes=max(0, int((host.clock.now() - began) // 60)),
        line=line if len(line) <= LONGEST else f"{line[:LONGEST]}...",
    )
    return f"{sentence} - {why}" if why else sentence


def _inspection_fix(pids: Sequence[int], title: Optional[str] = None) -> Fix:
    """Return the command that shows the processes; nothing ends them."""
    listed = ",".join(map(str, pids[:SHOWN]))
    command = Command(("ps", "-o", "pid,ppid,user,stat,lstart,wchan,args", "-p", listed))
    return Fix(title or _("inspect them"), steps=(command,), risk=Risk.MANUAL, needs_root=False)


def _signal_fix(host: Host, step: SignalProcess) -> Fix:
    """Return the fix with the step that ends exactly these processes."""
    return Fix(
        _("end them; this cannot be undone"),
        steps=(step,),
        risk=Risk.CAUTION,
        needs_root=step.owner != host.identity.euid,
    )


def _group_by_owner(
    host: Host, stale: Mapping[int, str], judge: StaleJudge
) -> tuple[list[SignalProcess], dict[int, str]]:
    """Return the steps, one for each job or container and each user, and the reason by pid for those that are
    only shown."""
    from npudoctor.proof.ending import EndingJudge

    endings = EndingJudge(host, judge)
    why_by_pid = {pid: why for pid in stale if (why := endings.why_not(pid))}
    groups: dict[tuple[str, int], set[int]] = {}
    for pid, over in stale.items():
        owner = host.processes.owner(pid)
        if pid not in why_by_pid and owner is not None:
            groups.setdefault((over, owner), set()).add(pid)
    for pids in groups.values():
        # A process whose child would stay is not ended; then its parent has a child that stays, and so on, so
        # the children come first.
        for process_id in endings.children_first(pids):
            child = endings.unproven_child(process_id, pids)
            if child is not None:
                pids.discard(process_id)
                why_by_pid[process_id] = _("it has a child {child} that does not end with it", child=child)
    steps = []
    for (_over, owner), pids in sorted(groups.items()):
        if pids:
            marks = [endings.mark(pid) for pid in endings.children_first(pids)]
            steps.append(SignalProcess(tuple(mark for mark in marks if mark is not None), owner))
    return steps, why_by_pid
