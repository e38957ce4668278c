"""Identifies the launch of a rank: a key that all its ranks on this node share, and no other launch has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host import Host
from npudoctor.host.process.processes import Process, Processes

# The variables with the local rank and the number of local ranks, "" when the launcher sets none. The
# innermost launcher first: srun may start a torchrun on each node.
_LOCAL_RANK_VARIABLES = (
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("PADDLE_RANK_IN_NODE", "PADDLE_LOCAL_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_LOCALID", ""),
)
# Variables that differ between two launches by the same process.
_LAUNCH_VARIABLES = (
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PADDLE_MASTER", "PADDLE_TRAINERS_NUM",
)  # fmt: skip
# Variables that influence the result of the checks. Not ASCEND_DEVICE_ID, which differs between ranks, nor
# TMPDIR, which Slurm passes to the first task only.
_RELEVANT = pattern(
    r"(ASCEND|HCCL|NCCL|CUDA|NVIDIA|LD|ATB|CANN|TOOLCHAIN|MS|MINDSPORE|GLOG|TORCH|PYTORCH|FLAGS|ACL|CM"
    r"|NPUDOCTOR)_(?!DEVICE_ID\Z|NODE_ID\Z)|PYTHON|RANK_TABLE|TASK_QUEUE|DUMP_G"
    r"|(PATH|HOME|USER|VIRTUAL_ENV|CONDA_PREFIX|LANG|LANGUAGE|LC_\w+|WORLD_SIZE|RANK_SIZE)\Z"
)
_TASKS = pattern(r"(\d+)(?:\(x(\d+)\))?\Z")


@dataclass(frozen=True)
class Launch:
    """`rank`: the rank on this node; `size`: how many ranks the node has, None when unknown; `key`: a
    hash."""

    rank: int
    size: Optional[int]
    key: str


def find_launch(host: Host, variables: Mapping[str, str], pid: int) -> Optional[Launch]:
    """The launch of the process `pid` with these variables; None when it is the only rank, or unknown."""
    rank_variable = _rank_variable(variables)
    if rank_variable is None:
        return None
    name, rank, size = rank_variable
    launcher = _find_launcher(host.processes, pid, name)
    is_by_hand = name == "SLURM_LOCALID" and size is None  # a batch script, or a shell in an allocation
    if size == 1 or is_by_hand or launcher is None:
        return None
    system = host.system
    launch_values = [
        f"{variable}={variables[variable]}" for variable in _LAUNCH_VARIABLES if variable in variables
    ]
    place = [system.boot_id(), system.namespace("pid"), host.identity.euid, name]
    return Launch(rank, size, _hash([*place, launcher.pid, launcher.started, *launch_values]))


def _rank_variable(variables: Mapping[str, str]) -> Optional[tuple[str, int, Optional[int]]]:
    """The variable with the local rank, its value, and how many ranks the node has (None: unknown)."""
    candidates = []
    for name, size_name in _LOCAL_RANK_VARIABLES:
        rank = _parse_number(variables.get(name))
        if rank is not None:
            size = _parse_number(variables.get(size_name)) if size_name else count_slurm_tasks(variables)
            candidates.append((name, rank, size))
    if candidates and candidates[0][0] == "LOCAL_RANK" and "TORCHELASTIC_RUN_ID" not in variables:
        # Without torchrun, a wrapper script of each rank may have set LOCAL_RANK from the variable of mpirun
        # or srun, which is then the launcher.
        for name, rank, size in candidates[1:]:
            if rank == candidates[0][1] and (size or 1) > 1 and candidates[0][2] in (None, size):
                return name, rank, size
    return candidates[0] if candidates else None


def fingerprint(variables: Mapping[str, str], *more: object) -> str:
    """A hash of everything that must be equal for two ranks to share an answer. `more`: further values."""
    relevant = [f"{name}={value}" for name, value in sorted(variables.items()) if _RELEVANT.match(name)]
    return _hash([*relevant, *more])


def count_slurm_tasks(variables: Mapping[str, str]) -> Optional[int]:
    """How many tasks of the step this node has, from SLURM_STEP_TASKS_PER_NODE such as `4(x2),3`."""
    tasks, node = variables.get("SLURM_STEP_TASKS_PER_NODE", ""), _parse_number(variables.get("SLURM_NODEID"))
    for part in tasks.split(","):
        match = _TASKS.match(part)
        if match is None or node is None:
            return None
        node -= int(match[2] or 1)
        if node < 0:
            return int(match[1])
    return None


def _find_launcher(processes: Processes, pid: int, name: str) -> Optional[Process]:
    """The nearest ancestor without the rank's variable: the processes between are wrapper shells of the
    rank."""
    process = processes.read_now(pid)
    while process is not None and process.parent > 0:
        parent = processes.read_now(process.parent)
        if parent is not None and processes.variable(parent.pid, name) is None:
            return parent
        process = parent
    return None


def _parse_number(text: Optional[str]) -> Optional[int]:
    # The length bounds what a hostile environment could ask for; no node has a million ranks.
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 7 else None


def _hash(parts: list[object]) -> str:
    import hashlib  # loads OpenSSL, which only ranks that share an answer need

    text = "\0".join(map(str, parts))
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]
