"""What a promise is: two commands, a limit for their ratio, and the proof that each really did its work."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

CHECKOUT = "this checkout"
"""As `Command.install`: the wheel that is built from the files around us."""


class CannotMeasureError(Exception):
    """A figure would be missing or meaningless; the message is one line that says why."""


@dataclass(frozen=True)
class Output:
    """What one finished process left: its status (negative: killed by that signal) and what it wrote.

    `calls`: what it asked the stand-ins of the machine with NPUs.
    """

    status: int
    stdout: bytes
    stderr: bytes
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A program of one environment, started by its absolute path; or one of the machine, told by that."""

    install: str
    """CHECKOUT, or a pinned requirement such as `name==1.2`; the same text means the same environment."""

    argv: tuple[str, ...]

    statuses: frozenset[int]
    """Any other exit status makes the figure worthless."""

    prove: Callable[[Output], str]
    """Says in a few words what was done; raises CannotMeasureError when the output does not show it."""

    shown: str = ""
    """How it is called in a table, where the command as it is typed is too long."""

    @property
    def line(self) -> str:
        """The command as a person types it."""
        return self.shown or " ".join(self.argv)


@dataclass(frozen=True)
class Promise:
    """`ours` takes at most `at_most` times the CPU time of `theirs`.

    `on_npus`: both run on the machine of slow stand-ins, and wall time is judged: waiting is the cost there.
    `in_packages`: the job's environment is full of packages.
    """

    ours: Command
    theirs: Command
    at_most: float
    runs: int
    aim: float | None = None
    warm_ups: int = 2
    on_npus: bool = False
    in_packages: bool = False

    @property
    def clock(self) -> str:
        """Which time is judged."""
        return "wall" if self.on_npus else "CPU"


def promises() -> dict[str, Promise]:
    """Every promise of the folder `promises`, by the name of its file."""
    found: dict[str, Promise] = {}
    for file in sorted((Path(__file__).parent / "promises").glob("[!_]*.py")):
        promise = importlib.import_module(f"benchmarks.promises.{file.stem}").PROMISE
        if not isinstance(promise, Promise):
            raise TypeError(f"{file.name}: PROMISE is not a Promise")
        found[file.stem] = promise
    return found
