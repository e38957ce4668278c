"""Which GPUs CUDA makes of CUDA_VISIBLE_DEVICES, as seen with libcuda 580 on an H100."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern

RUNTIME = "CUDA_VISIBLE_DEVICES"
LONGEST = 4096  # characters of a value: more than any machine has use for
DIGITS = 9  # of a number
# What is written to hide all of them; the last is Slurm's word for a job without a GPU.
HIDING = ("", "-1", "NoDevFiles")
_NUMBER = pattern(r"\s*[+-]?([0-9]+)", re.ASCII)


@dataclass(frozen=True)
class VisibleGpus:
    """What CUDA takes of the value: `ids` are indices of `uuids`, in the order written.

    `stopped`: the rest, from the first part that names no GPU here, "" when it takes all. `repeated`: one is
    named twice, with which cuInit ends in "invalid device". `unknown`: a part that cannot be resolved here
    (MIG, a UUID without a list of them).
    """

    ids: tuple[int, ...]
    stopped: str = ""
    repeated: bool = False
    unknown: str = ""


def cuda_visible(value: str, count: int, uuids: Optional[Sequence[str]] = None) -> VisibleGpus:
    """CUDA's reading of the value with `count` GPUs: parts up to the first that names none.

    A part is read like strtol does, so "0a" is 0 and "a" is none; UUIDs count by a prefix that only one has,
    in either case.
    """
    ids: list[int] = []
    parts = value.split(",")
    for at, part in enumerate(parts):
        # The UUIDs of MIG instances are not in the list of GPUs.
        if part.strip().startswith("MIG-"):
            return VisibleGpus(tuple(ids), unknown=part.strip())
        if part.strip().upper().startswith("GPU-"):
            if uuids is None:
                return VisibleGpus(tuple(ids), unknown=part.strip())
            start = part.strip().upper()
            same = [number for number, uuid in enumerate(uuids) if uuid and uuid.upper().startswith(start)]
            index = same[0] if len(same) == 1 else None
        else:
            index = _parse_index(part, count)
        if index is None:
            return VisibleGpus(tuple(ids), ",".join(parts[at:]) or part)
        if index in ids:
            return VisibleGpus(tuple(ids), ",".join(parts[at:]), repeated=True)
        ids.append(index)
    return VisibleGpus(tuple(ids))


def _parse_index(text: str, count: int) -> Optional[int]:
    match = _NUMBER.match(text)
    if match is None or len(match[1]) > DIGITS:
        return None
    number = int(match[1])
    # -0 is 0 to strtol.
    negative = "-" in match[0] and number > 0
    return None if negative or number >= count else number
