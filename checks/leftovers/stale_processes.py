"""Processes that outlived their job or container, hang in the kernel, or hold a device and do nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Union

from npudoctor import INFO, WARNING, Facts, Finding, Host, Scope, Unknown, _, check
from npudoctor.facts.job.expected_accelerator import gpu_here, npu_here
from npudoctor.host import CannotTell
from npudoctor.host.process.processes import Process


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
    """No process outlived its job or its container, and none hangs in the kernel.

    ## What it does

    A parent that is gone proves nothing: whoever starts a program with nohup, tmux or docker exec leaves it
    without one. What is found:

    - `stale-processes.left-behind`: it is in the control group of a Slurm job of which no slurmstepd lives on
      this node, or of a container whose shim or conmon is gone. A process cannot leave its control group.
      Not of a job that Slurm says is not over: between two of its steps it has no slurmstepd here.
    - `stale-processes.outlived-job`: it was started with SLURM_JOB_ID of a job that Slurm does not know any
      more or says is over, is in no control group of a job, and no slurmstepd of that job lives here.
    - `stale-processes.stuck`: in state D at two looks 2 s apart, without a moment on a processor in between.
      A warning when it holds a device; else information, as a slow disk looks like this too.
    - `stale-processes.zombie`: an ended process of training that its parent did not fetch at two looks, or
      one whose other threads live on, and hold what it held. A signal changes nothing: its parent must end.
    - `stale-processes.compile-worker`: it compiles operators (MindSpore's kernel_build_server, CANN's pool of
      compilers), and the process that it compiled for is gone.
    - `stale-processes.idle`: it has a device open, and used neither a processor nor the AI core (or the GPU)
      at two looks. An idle server and a rank that waits for others look the same: it is only named. Where
      nobody says how busy the device is, nothing is named.

    Never named as left over or idle are the processes of tmux, screen, systemd --user and notebooks, and our
    own ancestors; as idle neither those of a system service. What other users have open only root sees. From
    inside a container, or where processes are hidden, nothing is proven; the row is unknown when a process is
    seen of which that would matter. `--user` limits all of it to one
    owner, `--job` to one Slurm job.

    ## Why it matters

    A process that was left behind holds devices, ports and memory, and the next job fails on them. One that
    hangs in the driver holds its device until a reboot.

    ## Fix safety

    What `stale-processes.left-behind` names is ended by `fix` with `--risk caution`: SIGTERM, a wait of 10 s,
    SIGKILL for what is left, children before their parents, each held by a descriptor (pidfd) and proven anew
    right before. What it had in memory is lost. Not ended are one of a job of which Slurm (scontrol) does not
    say that it is over, a process with a child that is not proven, one in somebody's session or login, one
    with the rights of several users, and, unless root names the owner by `--owner`, other users' ones. Where
    the kernel has no pidfd (before 5.3) `--yes` ends nothing.

    All else is shown only, and never for all programs of a name: `pkill -9 python` ends the jobs of
    everybody. Look at a process before you end it: that cannot be undone.

    ## References

    proc_pid_stat(5), cgroups(7), Slurm's cgroup guide, scontrol(1); the NPU process leaks of dlrover 1283,
    1284, 1331.
    """
    processes = host.processes.all()
    if not host.options.only_user and not host.options.only_job and _at_rest(host, processes):
        yield Facts({"processes": len(processes), "left_behind": 0, "device_holders": 0})
        return
    from npudoctor.checks.leftovers import _stale_processes_findings as say
    from npudoctor.checks.leftovers._stale_processes_wanted import Wanted, outlived
    from npudoctor.facts.leftovers.compilers import is_orphaned_compiler
    from npudoctor.facts.leftovers.sessions import session_of
    from npudoctor.proof.stale import StaleJudge
    from npudoctor.proof.two_samples import sample_twice

    wanted = Wanted(host)
    living = [process for process in host.processes.all().values() if wanted(process) and not process.gone]
    judge = StaleJudge(host)
    proofs = {process.pid: judge.staleness(process.pid) for process in living if wanted.grouped(process.pid)}
    stale = {pid: proof.why for pid, proof in proofs.items() if proof.proven and not session_of(host, pid)}
    yield from say.left_behind(host, stale, judge)
    over = outlived(host, judge, [process.pid for process in living])
    yield from say.outlived_job(host, over)
    orphans = [process for process in living if is_orphaned_compiler(host, process)]
    known = {*stale, *over}
    yield from say.compile_worker(
        host, [one for one in orphans if one.pid not in known and not session_of(host, one.pid)]
    )
    twice = sample_twice(host, wanted)
    yield Facts({"processes": len(living), "left_behind": len(stale), "device_holders": twice.holders})
    yield from say.stuck(host, twice.stuck)
    yield from say.zombie(host, twice.zombies)
    yield from say.idle(host, [one for one in twice.idle if one.process.pid not in known])
    if proofs and judge.blind:
        text = _("whether a process outlived its job or container cannot be told: {why}")
        raise Unknown(text.format(why=judge.blind), advisory=True)


# In the paths of control groups of jobs and containers; who takes in orphans besides the first process.
_GROUPS = ("job_", "docker", "containerd", "libpod", "kubepods")
_ADOPTERS = ("systemd", "init")
# Who looks after control groups, by the beginnings of names.
_KEEPERS = ("slurm", "docker", "containerd", "conmon", "podman", "crio", "kubelet")


def _at_rest(host: Host, processes: Mapping[int, Process]) -> bool:
    """Whether a first look shows that nothing here can be left: no device, nobody who keeps jobs or
    containers, no process that is dead, stuck, or an orphan of Python. As on most machines; cheap to see."""
    try:
        if npu_here(host) or gpu_here(host) or host.commands.find("scontrol") is not None:
            return False
    except CannotTell:  # what cannot be seen may be there
        return False
    return not any(_may_matter(host, process, processes) for process in processes.values())


def _may_matter(host: Host, process: Process, processes: Mapping[int, Process]) -> bool:
    name = process.name.lower()
    if process.state in "ZDXx" or name.startswith(_KEEPERS):
        return True
    parent = processes.get(process.parent)
    if parent is not None and parent.pid != 1 and parent.name not in _ADOPTERS:
        return False
    # Whoever looked after a job or a container and is gone left at least one orphan of that control group.
    paths = host.processes.cgroups(process.pid)
    return (
        name.startswith("python") or paths is None or any(word in path for path in paths for word in _GROUPS)
    )
