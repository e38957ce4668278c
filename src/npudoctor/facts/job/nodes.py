"""How many nodes a job has, and whether the place where its ranks meet is this machine."""

from __future__ import annotations

from typing import Optional

from npudoctor.facts.job.local_addresses import is_local
from npudoctor.host.host import Host

# What a launcher or a batch system says outright.
_TOLD = ("GROUP_WORLD_SIZE", "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "NNODES")
# All ranks, and those of this node.
_SIZES = (
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MS_WORKER_NUM", "MS_LOCAL_WORKER_NUM"),
)
_RANKS = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "PADDLE_TRAINER_ID")
# The nodes' numbers, as torchrun and those who start it name them.
_NODES = ("GROUP_RANK", "NODE_RANK", "PET_NODE_RANK")
# A job whose ranks meet at a loopback address has one node.
_MEETING = ("MASTER_ADDR", "MS_SCHED_HOST")


def node_count(host: Host) -> Optional[int]:
    """The number of nodes by the variables; None where they do not say."""
    for size, local in _SIZES:
        ranks, here = read_number(host, size), read_number(host, local)
        # One rank is on one node, whatever else is set.
        if ranks == 1:
            return 1
        if ranks and here:
            # Rounded up: the last node may have fewer ranks.
            return -(-ranks // here)
    for name in _TOLD:
        count = read_number(host, name)
        if count:
            return count
    return 1 if any(is_loopback(host.variables.get(name, "")) for name in _MEETING) else None


def is_rank_zero(host: Host) -> bool:
    """Whether the variables are those of the first rank, beside which the job's master listens."""
    return any(read_number(host, name) == 0 for name in _RANKS)


def runs_first_rank(host: Host) -> bool:
    """Whether the first rank is sure to run on this node, be it that of our variables or another one."""
    if is_rank_zero(host):
        return True
    if any(read_number(host, name) is not None for name in _RANKS):
        return False
    return node_count(host) == 1 or any(read_number(host, name) == 0 for name in _NODES)


def is_here(host: Host, place: str) -> Optional[bool]:
    """Return whether an address or a name is this machine; a name server may be asked. None where it cannot
    be resolved.
    """
    ours = is_local(host, place)
    if ours is not None:
        return ours
    meaning = host.names.resolve(place)
    if not meaning.addresses:
        return None
    return any(is_local(host, address) for address in meaning.addresses)


def read_number(host: Host, name: str) -> Optional[int]:
    """The whole number in a variable; None where it is none."""
    value = host.variables.get(name, "").strip()
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None


def is_loopback(place: str) -> bool:
    """Whether it is a loopback address, or the name of one."""
    plain = place.strip("[]").lower()
    return plain in ("localhost", "::1") or (plain.startswith("127.") and plain.count(".") == 3)
