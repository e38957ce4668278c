"""Whether a Slurm job is over, by what Slurm itself says of it."""

from __future__ import annotations

from functools import partial
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.host import Host
from npudoctor.host.process.commands import FOLDERS, Answer, side_by_side

MANY = 16  # jobs of which Slurm is asked
PATIENCE = 0.4  # of the time of a check
ENDING = "COMPLETING"  # neither over nor alive: Slurm itself ends what is left
# Runs on every compute node.
DAEMON = "slurmd"
# scontrol forgets a job some minutes after its end (MinJobAge).
UNKNOWN_JOB = "Invalid job id specified"
# JobState values after which no process of a job may run (squeue(1)).
OVER = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT".split()
)


def has_slurm(host: Host) -> bool:
    """Return whether Slurm can be asked here."""
    return host.commands.find("scontrol") is not None


def jobs_over(host: Host, jobs: list[str]) -> dict[str, str]:
    """Those of these jobs that are proven over, each with the sentence that says so. At most MANY are asked
    about.
    """
    timeout = PATIENCE * host.options.timeout
    queried_jobs = jobs[:MANY]
    questions = [
        partial(host.commands.run, ("scontrol", "show", "job", job), timeout=timeout) for job in queried_jobs
    ]
    # A controller that is down makes each question wait for its timeout.
    answers = side_by_side(questions) if queried_jobs else []
    reasons = {job: why_over(job, answer) for job, answer in zip(queried_jobs, answers) if answer is not None}
    return {job: why for job, why in reasons.items() if why}


def why_lives(host: Host, job: str) -> str:
    """What Slurm says about a job that is not over; "" when it does not say that.

    A job without a slurmstepd on this node may still live: between two steps nothing of Slurm manages it here
    (unless PrologFlags=Contain), and the kernel may have killed the slurmstepd for its memory.
    """
    answer = _query_job(host, job)
    states = _parse_states(answer) if answer is not None and answer.ok else set()
    if not states - OVER - {ENDING}:
        return ""
    return _("Slurm reports job {job} as {state}", job=job, state=", ".join(sorted(states)))


def why_not_over(host: Host, job: str) -> str:
    """Why it is not proven that a job without a slurmstepd is over; "" when it is.

    Where nothing of Slurm runs or is installed, nobody could start another step of it.
    """
    answer = _query_job(host, job)
    if answer is not None:
        return "" if why_over(job, answer) else _("Slurm does not report that job {job} has ended", job=job)
    # Slurm is here, and we cannot ask it.
    if any(process.name == DAEMON and not process.gone for process in host.processes.all().values()):
        return _(
            "could not determine whether Slurm job {job} has ended: no scontrol in {folders}",
            job=job,
            folders=", ".join(FOLDERS),
        )
    return ""


def _query_job(host: Host, job: str) -> Optional[Answer]:
    """What Slurm says about one job; None where it cannot be asked."""
    if not has_slurm(host):
        return None
    return host.commands.run(("scontrol", "show", "job", job), timeout=PATIENCE * host.options.timeout)


def _parse_states(answer: Answer) -> set[str]:
    words = answer.stdout.split()
    return {word.partition("=")[2] for word in words if word.startswith("JobState=")}


def why_over(job: str, answer: Answer) -> str:
    """What proves that a job is over; "" when nothing does. A controller that does not answer proves
    nothing.
    """
    if answer.ended != "exited":
        return ""
    if answer.status != 0:
        unknown = UNKNOWN_JOB in f"{answer.stderr}{answer.stdout}"
        return _("Slurm no longer knows job {job}", job=job) if unknown else ""
    states = _parse_states(answer)
    if not states or not states <= OVER:
        return ""
    return _("Slurm reports job {job} as {state}", job=job, state=", ".join(sorted(states)))
