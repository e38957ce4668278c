"""How one step, or one action of a plan, ended."""

from __future__ import annotations

import enum
from typing import Callable

from npudoctor.frozen import dataclass

Observer = Callable[[str], None]
"""Told the name of every change of the machine, right before ("before NAME") and after it."""


class Ending(enum.Enum):
    """The status of an action in the JSON."""

    PLANNED = "planned"
    APPLIED = "applied"
    ALREADY = "already"
    DECLINED = "declined"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """An ending and its reason."""

    ending: Ending
    reason: str = ""


class Refused(Exception):
    """The guard does not hold any more, or the rights do not suffice: nothing was changed."""


class Gone(Exception):
    """What was to be removed is not there any more."""
