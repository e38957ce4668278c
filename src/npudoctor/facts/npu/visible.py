"""Which NPUs a job gets: by the runtime's variable, the container runtime's, and Slurm's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.host.devices.npu_tables import Chip
from npudoctor.host.host import Host

# Read by the ACL runtime in the process.
RUNTIME = "ASCEND_RT_VISIBLE_DEVICES"
# Read by Ascend's container runtime when the container is created.
CONTAINER = "ASCEND_VISIBLE_DEVICES"
LONGEST = 4096  # characters of a value, and ids of a list: more than any machine has use for
DIGITS = 9  # of an id
SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")  # the nearer one first; Slurm sets no variable of Ascend


@dataclass(frozen=True)
class VisibleNpus:
    """What the runtime takes of its variable. `stopped`: the part that it does not take, "" when it takes
    all.

    `strange`: that part is not written as a device id, rather than the id of a device that does not exist.
    """

    ids: tuple[int, ...]
    stopped: str = ""
    strange: bool = False


def runtime_ids(value: str, count: int) -> VisibleNpus:
    """The logic ids as the runtime reads them.

    It reads up to the first id that no device has (there are `count`), or up to the first character that is
    neither a digit nor a comma.
    """
    ids: list[int] = []
    at = 0
    for part in value.split(","):
        # "1, 2,3" is 1: a blank ends the list for the runtime (documents of the variable).
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if len(digits) > DIGITS or (digits and int(digits) >= count):
            return VisibleNpus(tuple(ids), value[at:])
        ids += [int(digits)] if digits else []
        if len(digits) < len(part) or not digits:
            rest = value[at + len(digits) :]
            return VisibleNpus(tuple(ids), rest if rest.strip(" ,") else "", strange=True)
        at += len(part) + 1
    return VisibleNpus(tuple(ids))


def listed_ids(value: str) -> Optional[list[int]]:
    """The numbers of a list with ranges, "0-2,4"; None when the text is no such list."""
    if len(value) > LONGEST:
        return None
    ids: list[int] = []
    for part in value.split(","):
        first, _dash, last = part.strip().partition("-")
        if not _is_id(first) or (last and not _is_id(last)) or int(last or first) >= LONGEST:
            return None
        ids += range(int(first), int(last or first) + 1)
        if len(ids) > LONGEST:
            return None
    return ids


def _is_id(word: str) -> bool:
    return word.isdecimal() and len(word) <= DIGITS


def slurm_ids(host: Host) -> tuple[str, Optional[list[int]]]:
    """The variable in which Slurm named this job's devices, and their ids; ("", None) without one that is
    about NPUs.
    """
    # Slurm calls all accelerators GPUs: with both kinds the variable may mean either.
    if not host.npus.is_usable or host.gpus.is_usable:
        return "", None
    name = next((name for name in SLURM if host.variables.get(name)), "")
    return name, listed_ids(host.variables[name]) if name else None


def node_numbers(nodes: Sequence[str]) -> list[int]:
    """The N of each /dev/davinciN."""
    return [int(node.rpartition("davinci")[2]) for node in nodes]


def chips_here(host: Host, chips: Sequence[Chip]) -> Optional[list[Chip]]:
    """The chips of the table whose device nodes are here, in the order of their logic ids.

    None when the table, which may show all chips of the host to a container, does not say which those are.
    """
    nodes = host.npus.nodes
    # All chips are ours: logic ids follow the table.
    if len(chips) == len(nodes):
        return list(chips)
    here = node_numbers(nodes)
    chips_of_nodes = [
        chip for chip in chips if (chip.npu if chip.physical is None else chip.physical) in here
    ]
    return chips_of_nodes if len(chips_of_nodes) == len(nodes) else None


def chips_of_job(host: Host, chips: Sequence[Chip]) -> tuple[Optional[list[Chip]], bool]:
    """The chips that this job gets, and whether a variable named them; (None, False) when that cannot be
    determined.
    """
    here = chips_here(host, chips)
    if here is None:
        return None, False
    value = host.variables.get(RUNTIME)
    if value:
        return [here[number] for number in dict.fromkeys(runtime_ids(value, len(here)).ids)], True
    _name, ids = slurm_ids(host)
    if ids is not None and all(number < len(here) for number in ids):
        return [here[number] for number in ids], True
    return here, False
