"""Defines a fault: how it changes a machine, which finding reports it, and what repairs it."""

from __future__ import annotations

from typing import Callable

from npudoctor.core.frozen import dataclass
from npudoctor.rehearsal.stage import Stage

# What repairs a fault: `npudoctor fix`, the commands that the finding shows when a person types them, or no
# command on this machine.
FIX, TYPED, NOTHING = "fix", "typed", "nothing"


@dataclass(frozen=True)
class Fault:
    """A fault to rehearse. `code`: of the finding that must report it; `makes`: breaks a machine that has
    only a Python.

    `by_root`: only root can repair it. `real`: the kernel itself is in that state; otherwise files, tools and
    devices are simulated. `programs`: must be installed on this machine. `options`: of `npudoctor check`.
    `seconds`: to wait before the check, when newer leftovers are not judged.
    """

    name: str
    code: str
    title: str
    makes: Callable[[Stage], None]
    remedy: str = NOTHING
    by_root: bool = False
    real: bool = True
    programs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def check(self) -> str:
        """The id of the check that finds it."""
        return self.code.partition(".")[0]


FAULTS: dict[str, Fault] = {}


def register_fault(
    name: str, code: str, title: str, **more: object
) -> Callable[[Callable[[Stage], None]], None]:
    """A decorator that adds the decorated function to FAULTS; `more`: further fields of Fault."""

    def add(makes: Callable[[Stage], None]) -> None:
        FAULTS[name] = Fault(name, code, title, makes, **more)  # type: ignore[arg-type]

    return add


def register_variable_fault(
    name: str, code: str, title: str, *, remedy: str = TYPED, **variables: str
) -> None:
    """Add a fault that consists of variables in the job's shell, on a machine with two NPUs."""

    def makes(stage: Stage) -> None:
        stage.add_npus()
        stage.variables.update(variables)

    register_fault(name, code, title, remedy=remedy, real=False)(makes)
