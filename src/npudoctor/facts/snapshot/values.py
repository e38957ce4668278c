"""What a fact is: a name with a plain value, or with why it could not be read."""

from __future__ import annotations

from typing import Callable, Union

from npudoctor.core.errors import CannotTell, NotRunning
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _

# None: it was looked for, and the node has none.
Value = Union[None, bool, int, float, str, tuple[str, ...]]


@dataclass(frozen=True)
class Fact:
    """One fact. `unread`: why it could not be read, "" where it was read.

    `advisory`: it cannot be seen from this place, whatever the node has.
    """

    name: str
    value: Value = None
    unread: str = ""
    advisory: bool = False


def not_running() -> str:
    """Why a fact of a running machine is not told of an image."""
    return _("an image is not running")


def fact(name: str, ask: Callable[[], Value]) -> Fact:
    """The fact that `ask` returns; where it raises CannotTell or NotRunning, a fact that says why."""
    try:
        return Fact(name, ask())
    except NotRunning:
        return Fact(name, unread=not_running(), advisory=True)
    except CannotTell as error:
        return Fact(name, unread=error.reason, advisory=error.advisory)
