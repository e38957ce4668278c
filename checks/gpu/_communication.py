"""How much the communication between GPUs matters to this job."""

from __future__ import annotations

from npudoctor import ERROR, INFO, WARNING, Host, Severity
from npudoctor.core.errors import CannotTell, NotRunning

# The number of processes, as each launcher tells it.
SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PADDLE_TRAINERS_NUM", "MS_WORKER_NUM", "RANK_SIZE")

# Variables of msrun and of MindSpore's dynamic cluster, whose processes rendezvous without MPI.
DYNAMIC = ("MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST")


def needs_no_mpi(host: Host) -> bool:
    """Whether a variable says that MindSpore's processes rendezvous without MPI."""
    return host.options.root is None and any(host.variables.get(name) for name in DYNAMIC)


def has_several_processes(host: Host) -> bool:
    """Whether a launcher's variable says that the job has more than one process."""
    if host.options.root is not None:
        return False
    sizes = (host.variables.get(name, "") for name in SIZES)
    # [:9]: int() of more than 4300 digits raises ValueError (CPython 3.11, and security releases of older
    # ones).
    return any(size.isdecimal() and int(size[:9]) > 1 for size in sizes)


def communication_severity(host: Host) -> Severity:
    """Return the severity of missing communication between the processes of a job: an error if it has
    several, information if the machine has one GPU, else a warning."""
    if has_several_processes(host):
        return ERROR
    try:
        is_single_gpu = len(host.gpus.nodes) == 1
    except (CannotTell, NotRunning):
        # Unknown is not one: the warning stays.
        is_single_gpu = False
    return INFO if is_single_gpu else WARNING
