"""Whether a Slurm job is over, by what Slurm itself says of it."""

from __future__ import annotations

from functools import partial

from npudoctor.host import Host
from npudoctor.host.commands import Answer
from npudoctor.host.npu_smi import side_by_side
from npudoctor.messages import _

MANY = 16  # jobs of which Slurm is asked
PATIENCE = 0.4  # of the time of a check
UNKNOWN_JOB = "Invalid job id specified"
OVER = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT".split()
)


def has_slurm(host: Host) -> bool:
    """Whether Slurm can be asked here."""
    return host.commands.find("scontrol") is not None


def jobs_over(host: Host, jobs: list[str]) -> dict[str, str]:
    """Those of these jobs that are proven over, each with the sentence that says so."""
    timeout = PATIENCE * host.options.timeout
    asked = jobs[:MANY]
    questions = [
        partial(host.commands.run, ("scontrol", "show", "job", job), timeout=timeout) for job in asked
    ]
    answers = side_by_side(questions) if asked else []
    said = {job: why_over(job, answer) for job, answer in zip(asked, answers) if answer is not None}
    return {job: why for job, why in said.items() if why}


def why_over(job: str, answer: Answer) -> str:
    """What proves that it is over; empty when nothing does. A controller that is away proves nothing."""
    if answer.ended != "exited":
        return ""
    if answer.status != 0:
        unknown = UNKNOWN_JOB in f"{answer.stderr}{answer.stdout}"
        return _("Slurm knows no job {job} any more").format(job=job) if unknown else ""
    words = answer.stdout.split()
    states = {word.partition("=")[2] for word in words if word.startswith("JobState=")}
    if not states or not states <= OVER:
        return ""
    text = _("Slurm says that job {job} is {state}")
    return text.format(job=job, state=", ".join(sorted(states)))
