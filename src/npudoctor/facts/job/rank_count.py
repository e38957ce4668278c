"""What the launcher's variables say of the job's size, for the checks of communication."""

from __future__ import annotations

from collections.abc import Mapping


def has_several_ranks(variables: Mapping[str, str]) -> bool:
    """Whether the variables say that the job has more than one rank."""
    size = variables.get("WORLD_SIZE", "")
    return size.isdecimal() and int(size[:9]) > 1
