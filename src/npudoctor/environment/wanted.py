"""The variables with which the environment checks pass, as differences to those of the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host import Host


@dataclass(frozen=True)
class Wanted:
    """What is to be changed: each variable's whole new value, None to unset it. `notes`: what a person
    should know, for standard error. Nothing to change is an answer, too."""

    changes: Mapping[str, Optional[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def wanted(host: Host) -> Wanted:
    """What this host's variables lack; CannotTell (npudoctor.host) where that cannot be computed."""
    return Wanted()
