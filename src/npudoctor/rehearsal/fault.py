"""What a fault is: what it does to a machine, what is said of it, and what takes it away again."""

from __future__ import annotations

from typing import Callable

from npudoctor.core.frozen import dataclass
from npudoctor.rehearsal.stage import Stage

# How a finding is answered: `fix` mends it, the lines that it shows mend it when somebody types them, or
# nothing that could be typed does.
FIX, TYPED, NOTHING = "fix", "typed", "nothing"


@dataclass(frozen=True)
class Fault:
    """`code`: the finding that must be there. `makes` breaks a machine that has nothing but a Python.

    `by_root`: only root can mend it. `real`: the kernel itself is in that state; else files, tools and
    devices are made up. `programs` must be installed. `options` of check. `seconds` must pass before it is
    old enough.
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
        """The check that finds it."""
        return self.code.partition(".")[0]


FAULTS: dict[str, Fault] = {}


def fault(name: str, code: str, title: str, **more: object) -> Callable[[Callable[[Stage], None]], None]:
    """Add what the decorated function does to a machine to the list."""

    def add(makes: Callable[[Stage], None]) -> None:
        FAULTS[name] = Fault(name, code, title, makes, **more)  # type: ignore[arg-type]

    return add


def job_variable(name: str, code: str, title: str, *, remedy: str = TYPED, **variables: str) -> None:
    """A fault that is a few variables of the job's shell, on a machine with two NPUs."""

    def makes(stage: Stage) -> None:
        stage.npus()
        stage.variables.update(variables)

    fault(name, code, title, remedy=remedy, real=False)(makes)
