"""What each launcher tells a process of its rank, by environment variables. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Optional

from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class LauncherVariables:
    """The variables of one launcher; "" where it has none. `ours`: a person may set them by hand, so that
    a bad value is a mistake; the others are a scheduler's own."""

    launcher: str
    rank: str
    size: str
    local_rank: str = ""
    local_size: str = ""
    node: str = ""
    nodes: str = ""
    ours: bool = True

    @property
    def all(self) -> tuple[str, ...]:
        """The variables that this launcher has."""
        return tuple(name for pair in self.pairs for name in pair if name)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Each index with the count that it must stay below."""
        return (self.rank, self.size), (self.local_rank, self.local_size), (self.node, self.nodes)


# Set by torchrun in every worker (documentation of torch.distributed.run).
TORCH = LauncherVariables(
    "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"
)
# msrun gives MS_NODE_ID to each worker of a scheduler, not to each node.
MSRUN = LauncherVariables("msrun", "MS_NODE_ID", "MS_WORKER_NUM")
ASCEND = LauncherVariables("MindSpore", "RANK_ID", "RANK_SIZE")
PADDLE = LauncherVariables(
    "Paddle", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_RANK_IN_NODE", "PADDLE_LOCAL_SIZE"
)
OPEN_MPI = LauncherVariables(
    "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE", ours=False,
)  # fmt: skip
# PMI of MPICH and Intel MPI; the local ones are Intel's and Hydra's.
MPICH = LauncherVariables("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ours=False)
# Those of the step: in a batch script SLURM_PROCID is 0 and SLURM_NTASKS that of the job.
SLURM = LauncherVariables(
    "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_NODEID",
    "SLURM_STEP_NUM_NODES", ours=False,
)  # fmt: skip
# What scripts hand on to torchrun's --node_rank and --nnodes, and what it reads by itself.
NODES = (
    LauncherVariables("torchrun", "NODE_RANK", "NNODES"),
    LauncherVariables("torchrun", "PET_NODE_RANK", "PET_NNODES"),
)
LAUNCHERS = (TORCH, MSRUN, ASCEND, PADDLE, OPEN_MPI, MPICH, SLURM)


@dataclass(frozen=True)
class LauncherRank:
    """What a launcher said: None for what it does not set, or what cannot be read."""

    names: LauncherVariables
    rank: Optional[int]
    size: Optional[int]


def parse_count(value: Optional[str]) -> Optional[int]:
    """A count or an index, as Python's int() reads it; None where it is none. -1 stands for "not set"."""
    try:
        count = int(value or "")
    except ValueError:
        return None
    return count if count >= 0 else None


def find_unreadable(names: LauncherVariables, variables: Mapping[str, str]) -> list[str]:
    """The variables of a launcher that hold no number where its reader needs one."""
    bad = []
    for name in names.all:
        value = variables.get(name)
        lenient = name == "MS_NODE_ID" or value == "-1"  # msrun names nodes in words too
        if value is None or lenient:
            continue
        count = parse_count(value)
        if count is None or (count == 0 and name in (names.size, names.local_size, names.nodes)):
            bad.append(name)
    return bad


def find_beyond_count(names: LauncherVariables, variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each (index, count) of a launcher whose index is not below its count, by the names of the variables."""
    return [
        (index, count)
        for index, count in names.pairs
        if 0 < (parse_count(variables.get(count)) or 0) <= (parse_count(variables.get(index)) or 0)
    ]


def launcher_ranks(variables: Mapping[str, str]) -> list[LauncherRank]:
    """The ranks that launchers set, without launchers that set none."""
    ranks = [
        LauncherRank(names, parse_count(variables.get(names.rank)), parse_count(variables.get(names.size)))
        for names in LAUNCHERS
    ]
    return [rank for rank in ranks if rank.rank is not None or rank.size is not None]


def find_contradictions(variables: Mapping[str, str]) -> list[tuple[LauncherRank, LauncherRank]]:
    """Pairs of launchers that count the same ranks and number this one differently.

    Launchers of different sizes run one inside the other: srun starts a torchrun on each node. torchrun with
    a rendezvous numbers its ranks as they come.
    """
    # A size of one is no job that could be numbered in two ways.
    ranks = [rank for rank in launcher_ranks(variables) if rank.rank is not None and (rank.size or 0) > 1]
    if "TORCHELASTIC_RUN_ID" in variables:
        ranks = [rank for rank in ranks if rank.names.ours]
    pairs = combinations(ranks, 2)
    return [(first, other) for first, other in pairs if first.size == other.size and first.rank != other.rank]


def find_clashing_sizes(variables: Mapping[str, str]) -> list[tuple[LauncherRank, LauncherRank]]:
    """Pairs of launchers of which neither size divides the other, so that neither can run inside the other.

    Without schedulers: one of their tasks may be a job of its own.
    """
    ranks = [rank for rank in launcher_ranks(variables) if rank.names.ours and (rank.size or 0) > 1]
    return [
        (first, other)
        for first, other in combinations(ranks, 2)
        if first.size and other.size and first.size % other.size and other.size % first.size
    ]
