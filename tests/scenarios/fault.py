"""A fault: what it does to a machine, on which it can be, and what is to be said of it."""

from __future__ import annotations

from typing import Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.model import Finding, Report, Severity, Status

from .machines import Machine

Breaks = Callable[[Machine], Optional[Machine]]
Where = Callable[[Machine], bool]


@dataclass(frozen=True)
class Fault:
    """`code`: what must be said. `breaks` changes a copy of a healthy machine, or gives another one."""

    name: str
    code: str
    breaks: Breaks
    where: Where

    def on(self, machine: Machine) -> Machine:
        """The machine with this fault and nothing else."""
        broken = machine.copy()
        return self.breaks(broken) or broken


@dataclass(frozen=True)
class Outcome:
    """What became of one fault on one machine. `others`: what else was said as an error of its own."""

    found: bool
    others: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def sign(self) -> str:
        """As the table shows it."""
        return "!" if self.broken else "x" if not self.found else "+" if self.others else "."


FAULTS: list[Fault] = []


def anywhere(_machine: Machine) -> bool:
    """Every machine."""
    return True


def fault(name: str, code: str, where: Where = anywhere) -> Callable[[Breaks], Breaks]:
    """Add what the decorated function does to the table; it is done to machines with NPUs only."""

    def add(breaks: Breaks) -> Breaks:
        FAULTS.append(Fault(name, code, breaks, lambda machine: machine.expect == "npu" and where(machine)))
        return breaks

    return add


def outcome(fault: Fault, report: Report) -> Outcome:
    """Whether the fault was found, and whether anything else stands beside it as an error."""
    findings = [finding for row in report.results for finding in row.findings]
    alone = [finding for finding in findings if finding.counts]
    crashed = (Status.CRASHED, Status.TIMEOUT, Status.BROKEN)
    return Outcome(
        any(finding.code == fault.code for finding in alone),
        tuple(finding.code for finding in alone if _error(finding) and finding.code != fault.code),
        tuple(f"{row.check}: {row.reason}" for row in report.results if row.status in crashed),
    )


def _error(finding: Finding) -> bool:
    return finding.weight is Severity.ERROR


# Where a fault can be.


def layout(*names: str) -> Where:
    """On trees of these layouts: old, latest, new."""
    return lambda machine: machine.era.layout in names


def kind(*names: str) -> Where:
    """With these frameworks."""
    return lambda machine: machine.framework in names


def cann(*versions: str) -> Where:
    """With these releases of CANN."""
    return lambda machine: machine.era.cann in versions


def both(*wheres: Where) -> Where:
    """Where all of these hold."""
    return lambda machine: all(where(machine) for where in wheres)
