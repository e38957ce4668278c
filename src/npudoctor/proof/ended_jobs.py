"""Which processes stale-processes is asked about, and which outlived the job that they were started in."""

from __future__ import annotations

from collections.abc import Iterable

from npudoctor.facts.leftovers.owners import selected_owner
from npudoctor.facts.leftovers.sessions import is_kernel_thread, session_of
from npudoctor.host import Host
from npudoctor.host.process.processes import Process
from npudoctor.proof.slurm import has_slurm, jobs_over
from npudoctor.proof.stale import StaleJudge, containers_of, jobs_of

# Slurm sets them in the environment of every step.
JOB, ARRAY, TASK = "SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"


class ProcessSelection:
    """Says whether a process is asked about: --user and --job limit that; npudoctor, its parents and the
    kernel's threads never are.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._owner = selected_owner(host)
        self._ours = set(host.processes.ancestors(host.processes.self_pid))

    def __call__(self, process: Process) -> bool:
        if process.pid in self._ours or is_kernel_thread(self._host, process.pid):
            return False
        if self._owner is not None and process.uid != self._owner:
            return False
        job = self._host.options.only_job
        if job is None or job in jobs_of(self._host, process.pid):
            return True
        # The job that its variables name, as a job and as a task of an array.
        started, array, task = (
            self._host.processes.variable(process.pid, name) for name in (JOB, ARRAY, TASK)
        )
        task_of_array = f"{array}_{task}" if array and task else None
        return job in [name for name in (started, task_of_array) if name]

    def is_grouped(self, pid: int) -> bool:
        """Return whether it is in the control group of a job or a container."""
        return bool(jobs_of(self._host, pid) or containers_of(self._host, pid))


def processes_of_ended_jobs(host: Host, judge: StaleJudge, pids: Iterable[int]) -> dict[int, str]:
    """The processes whose job, by the variables that they were started with, is proven over; and
    why, by pid.
    """
    if judge.why_blind or not has_slurm(host):
        return {}
    jobs: dict[str, list[int]] = {}
    for pid in pids:
        job = host.processes.variable(pid, JOB) or ""
        process = host.processes.by_pid()[pid]
        if (
            job.isascii()
            and job.isdecimal()
            and not process.name.startswith("slurm")
            and not jobs_of(host, pid)
        ):
            jobs.setdefault(job, []).append(pid)
    over = jobs_over(host, [job for job in jobs if not judge.why_job_lives(job)])
    # Somebody may have started tmux or a notebook in the job, to come back to it.
    return {pid: why for job, why in over.items() for pid in jobs[job] if not session_of(host, pid)}
