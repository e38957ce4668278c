"""What npudoctor speaks of: findings, fixes, results, reports. Frozen data only; imports nothing of ours."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Optional, Protocol

from npudoctor.core.frozen import dataclass, field

# What a check may need besides variables and distributions; checking.needs knows how to look for each.
THINGS = ("cann", "driver", "npu", "gpu", "framework", "packages")

# The group of checks that only advise: in reports and plans it stands back unless somebody asked for it.
ADVICE = "tuning"


class Severity(enum.IntEnum):
    """How bad a finding is; ordered."""

    INFO = 1
    WARNING = 2
    ERROR = 3


class Risk(enum.IntEnum):
    """What applying a fix may cost; ordered.

    SAFE: proven that nothing living uses it, nothing is lost that cannot be recomputed, idempotent.
    CAUTION: asked one by one, or `--risk caution`. MANUAL: shown to a person, never applied.
    """

    SAFE = 1
    CAUTION = 2
    MANUAL = 3


class Scope(enum.Enum):
    """Whom a check speaks to: the machine (the same for everybody) or this shell and its job."""

    NODE = "node"
    JOB = "job"


class Status(enum.Enum):
    """How a row ended. OK may carry INFO findings; PROBLEM carries a WARNING or an ERROR."""

    OK = "ok"
    PROBLEM = "problem"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    BROKEN = "broken"


# A row with one of these has no result: for a needed check the verdict is then undetermined.
UNANSWERED = (Status.UNKNOWN, Status.TIMEOUT, Status.CRASHED, Status.BROKEN)


class Action(enum.Enum):
    """What whoever provisions the node should do about a finding."""

    NONE = "none"
    CONFIG = "config"
    CLEANUP = "cleanup"
    RESTART_JOB = "restart-job"
    REBOOT = "reboot"
    RESET_DEVICE = "reset-device"
    ISOLATE = "isolate"
    CONTACT = "contact"


class Verdict(enum.Enum):
    """The answer to "can this machine train?"."""

    READY = "ready"
    NOT_READY = "not_ready"
    UNDETERMINED = "undetermined"


class Step(Protocol):
    """One thing that a fix does; fixing.steps has the kinds."""

    def lines(self) -> tuple[str, ...]:
        """The shell lines that a person would type for it."""


@dataclass(frozen=True)
class Fix:
    """A remedy as data: shown exactly as it will run, and run only by fixing.apply.

    `unproven` marks lines that are shown because nobody could prove the thing dead. `container`: what the
    start of the container lacks, as words of `docker run`; nobody can add it from inside.
    """

    title: str
    steps: tuple[Step, ...] = ()
    undo: tuple[str, ...] = ()
    risk: Risk = Risk.CAUTION
    needs_root: bool = True
    unproven: bool = False
    container: tuple[str, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The lines of all steps, in order."""
        return tuple(line for step in self.steps for line in step.lines())

    @property
    def undo_commands(self) -> tuple[str, ...]:
        """The lines that take the fix back: those of its steps, the last step's first, where every step has
        some, since those are what is run; else the lines in `undo`.
        """
        if self.undo and not self.undoable:
            return self.undo
        undo_of_steps = (getattr(step, "undo_lines", tuple) for step in reversed(self.steps))
        return tuple(line for lines in undo_of_steps for line in lines())

    @property
    def undoable(self) -> bool:
        """Whether npudoctor can take back all of it: every step knows how."""
        # Half of an undo would leave a state that nobody has seen before.
        return bool(self.steps) and all(getattr(step, "undo_lines", tuple)() for step in self.steps)


@dataclass(frozen=True)
class Ignored:
    """Somebody chose not to count a finding; `reason` where they gave one."""

    reason: Optional[str] = None


@dataclass(frozen=True)
class Finding:
    """One thing worth saying. `severity` left out means: as the check declares the code.

    `echo_of` names codes of other findings that would be the cause of this one: where one is in the report,
    this one no more decides. An error must not name what may be a mere warning, unless that names it in turn.
    The runner fills `caused_by` and `ignored`.
    """

    code: str
    message: str
    severity: Optional[Severity] = None
    evidence: tuple[str, ...] = ()
    device: Optional[str] = None
    action: Action = Action.NONE
    fix: Optional[Fix] = None
    echo_of: tuple[str, ...] = ()
    caused_by: Optional[str] = None
    ignored: Optional[Ignored] = None

    @property
    def weight(self) -> Severity:
        """The severity; a finding that the runner has not stamped yet weighs as an ERROR."""
        # What is not stamped must not be taken for harmless.
        return Severity.ERROR if self.severity is None else self.severity

    @property
    def counts(self) -> bool:
        """Whether it counts and decides: neither ignored nor folded under its cause."""
        return self.ignored is None and self.caused_by is None


@dataclass(frozen=True)
class Facts:
    """What a check measured, for programs: JSON-able values, which the row carries in `facts`."""

    values: Mapping[str, object]


@dataclass(frozen=True)
class Compared:
    """A fact of a check that should be alike on all nodes of a job: `npudoctor fleet` compares it.

    `path`: where it stands in the check's `Facts`: keys joined by dots, a number for a place in a list, "*"
    for every key of a table, whose values then are one fact. `name`: what it is called beside those of all
    other checks; "" for a table, of which every entry is a fact by its own name. `complete`: the check tells
    all that there is, so that an answer without it means that the node has none; of a table always. `own`:
    entries of a table that each node has for itself.
    """

    path: str
    name: str = ""
    complete: bool = False
    own: tuple[str, ...] = ()

    def row(self) -> dict[str, object]:
        """This fact as JSON, without what has its default value."""
        # As in the index of checks: what has its default is left out.
        usual = {"name": "", "complete": False, "own": []}
        row = {"path": self.path, "name": self.name, "complete": self.complete, "own": list(self.own)}
        return {key: value for key, value in row.items() if key not in usual or value != usual[key]}


@dataclass(frozen=True)
class Result:
    """One row of a report."""

    check: str
    title: str
    group: str
    status: Status
    scope: Scope = Scope.NODE
    tags: tuple[str, ...] = ()
    needed: bool = True
    findings: tuple[Finding, ...] = ()
    reason: Optional[str] = None
    seconds: float = 0.0
    facts: Mapping[str, object] = field(default_factory=dict)
    compares: tuple[Compared, ...] = ()  # of a check that is not built in, which no other node needs to know


@dataclass(frozen=True)
class HostFacts:
    """Which machine a report is about."""

    name: str
    boot_id: Optional[str]
    machine: str
    system: str
    release: str
    distribution: Optional[str]
    container: bool
    user: str


@dataclass(frozen=True)
class PythonFacts:
    """The interpreter under examination."""

    path: str
    version: Optional[str]


@dataclass(frozen=True)
class Target:
    """What the machine trains on, and in which interpreter.

    `frameworks`: their versions by name, None where the interpreter could not be asked. `python_of_path`: the
    python3 of PATH where another one is judged, as only that has a framework.
    """

    kind: str
    model: Optional[str]
    devices: int
    python: Optional[PythonFacts]
    python_from: Optional[str]
    root: Optional[str]
    driver: Optional[str] = None
    cann: Optional[str] = None
    frameworks: Optional[Mapping[str, str]] = None
    python_of_path: Optional[str] = None


@dataclass(frozen=True)
class Report:
    """Everything that the JSON says of one run of `check`."""

    version: str
    started: str
    seconds: float
    profile: str
    scope: str
    host: HostFacts
    target: Target
    verdict: Verdict
    exit_code: int
    msg: str
    counts: dict[str, int]
    results: tuple[Result, ...]
