"""What a machine of the corpus is, and the jobs that are started on it."""

from __future__ import annotations

from dataclasses import dataclass, field

TRAINER, OTHER = 23517, 23518


@dataclass(frozen=True)
class Machine:
    """The healthy machine of `base.sh`, changed, and the job that is started on it."""

    name: str
    # One of `JOBS`.
    job: str
    # Does the job fail to start here, because of the machine?
    broken: bool
    why: str
    # Lines of shell that root runs in the machine's namespaces; the last folder is where the job starts.
    setup: tuple[str, ...] = ()
    # Variables of the job beside those of `JOBS`.
    variables: dict[str, str] = field(default_factory=dict)
    # `trainer`, an ordinary user, or `root`.
    user: str = "trainer"
    # Words of prlimit(1): --nofile=64.
    limits: tuple[str, ...] = ()
    # Words of setpriv(1), for root without its capabilities.
    privileges: tuple[str, ...] = ()
    # What the job is started by: unshare --user.
    wrapper: tuple[str, ...] = ()
    # System calls that fail: memfd_create:ENOSYS (see `refuse.py`).
    refused: tuple[str, ...] = ()
    # Settings of a control group of its own: {"pids/pids.max": "20"}.
    group: dict[str, str] = field(default_factory=dict)
    # Programs without which it cannot be set up.
    needs: tuple[str, ...] = ()
    # Of an odd machine on which the job does start: the broken one that it is nearest to.
    near: str = ""


@dataclass(frozen=True)
class Job:
    """How a job is started."""

    # The folder of the cache with its Python environment; none: the system's Python.
    environment: str
    words: tuple[str, ...]


_TORCHRUN = 'torchrun --nproc-per-node 2 --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT"'
_MSRUN = "msrun --worker_num=2 --local_worker_num=2 --join=True --cluster_time_out=25"
_MASTER = '--master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT"'
JOBS = {
    "torchrun": Job("torch", ("/bin/sh", "-c", f'exec {_TORCHRUN} "$JOBS/torch_job.py"')),
    "msrun": Job("mindspore", ("/bin/sh", "-c", f'exec {_MSRUN} {_MASTER} "$JOBS/mindspore_job.py"')),
    "multiprocessing": Job("", ("/bin/sh", "-c", 'exec python3 "$JOBS/alone.py"')),
}
