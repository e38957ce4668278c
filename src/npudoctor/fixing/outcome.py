"""How one step, or one action of a plan, ended; and the watch that is kept over every change."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable

from npudoctor.core.frozen import dataclass

Observer = Callable[[str], None]
"""Told the name of every change of the machine, right before ("before NAME") and after it ("after NAME")."""


@contextmanager
def watch_change(at: Observer, name: str) -> Iterator[None]:
    """Report one change of the machine before and after it, so that a test can stop us at each."""
    # Not in a `finally`: a change that raised may not have happened, and "after" would say so.
    at(f"before {name}")
    yield
    at(f"after {name}")


class ActionStatus(enum.Enum):
    """The status of an action in the JSON."""

    PLANNED = "planned"
    APPLIED = "applied"
    ALREADY = "already"
    DECLINED = "declined"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """A status and its reason. `changed`: something differs from before, even where the rest failed."""

    status: ActionStatus
    reason: str = ""
    changed: bool = False
