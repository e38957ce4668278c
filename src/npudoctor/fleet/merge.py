"""Merges many reports: which nodes are ready, what is wrong where, what differs; only that stays in
memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact
from npudoctor.fleet.reading import Item, ReceivedReport
from npudoctor.fleet.skew import (
    NOWHERE,
    CompletedChecks,
    FleetComparison,
    NodeFact,
    Skew,
    UncomparedFacts,
    clock_text,
    facts_of,
)

READY, NOT_READY, UNDETERMINED, SILENT = "ready", "not_ready", "undetermined", "silent"
STATES = (READY, NOT_READY, UNDETERMINED, SILENT)
# As the exit codes of `npudoctor check`: a report with another pair is not believed.
_STATUS_OF = {READY: 0, NOT_READY: 1, UNDETERMINED: 2}
_SEVERITIES = {"error": 3, "warning": 2, "info": 1}
STATUSES = ("ok", "problem", "skipped", "unknown", "timeout", "crashed", "broken")
# The statuses of a needed check that let a node be ready; with any other the verdict is undetermined.
_ANSWERS = ("ok", "problem", "skipped")
LONGEST = 2000  # characters of a message
# A real report has about a hundred rows. All three bound what a hostile one can make us keep.
MOST_ROWS, MOST_FINDINGS, MOST_COMMANDS = 1000, 2000, 40


@dataclass(frozen=True)
class Node:
    """What is kept of one node. `rows`: (check, status) pairs; nodes with equal rows share one tuple.

    `details`: reason and seconds of each row, empty unless the Merger keeps them; `seconds`: of the whole
    run; `started`: ISO 8601 as the report says it; `error`: why there is no report, None when there is one.
    """

    name: str
    state: str
    msg: str
    started: str = ""
    source: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    codes: tuple[str, ...] = ()
    error: Optional[str] = None
    details: tuple[tuple[str, float], ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class FleetFinding:
    """One code with all nodes that have it. `message` and `fix` are those of the first node.

    `variants`, `fixes`: how many different messages and fixes there are; with more than one fix, the shown
    one suits the first node only.
    """

    code: str
    check: str
    severity: str
    message: str
    action: str
    fix: Optional[Mapping[str, Any]]
    nodes: tuple[str, ...]
    variants: int
    fixes: int = 1


@dataclass(frozen=True)
class SourceFailure:
    """A source that could not be read, or a node that could not be reached; `node`: None when unknown."""

    node: Optional[str]
    source: str
    error: str


@dataclass(frozen=True)
class Fleet:
    """The merged result. `superseded`: by node, how many older reports of it were ignored."""

    nodes: tuple[Node, ...]
    findings: tuple[FleetFinding, ...]
    skew: tuple[Skew, ...]
    failures: tuple[SourceFailure, ...]
    superseded: Mapping[str, int] = field(default_factory=dict)
    uncompared: tuple[UncomparedFacts, ...] = ()

    def names(self, state: str) -> tuple[str, ...]:
        """The names of the nodes in this state, one of STATES."""
        return tuple(node.name for node in self.nodes if node.state == state)

    @property
    def verdict(self) -> str:
        """The verdict on all nodes: not_ready before undetermined before ready, as for one node."""
        states = {node.state for node in self.nodes}
        if NOT_READY in states:
            return NOT_READY
        return READY if states == {READY} and not self.failures else UNDETERMINED

    @property
    def exit_code(self) -> int:
        """0: all ready; 1: some not ready; 2: some undetermined or unreachable."""
        return _STATUS_OF[self.verdict]


class _Draft:
    """One report, reduced to what is kept of it."""

    # One per node: without __slots__ each would carry a dict of its own.
    __slots__ = ("facts", "findings", "looked", "node")

    def __init__(
        self,
        node: Node,
        findings: dict[str, tuple[Any, ...]],
        facts: dict[str, NodeFact],
        completed: CompletedChecks,
    ) -> None:
        self.node, self.findings, self.facts, self.looked = node, findings, facts, completed


class Merger:
    """Merges reports that are added one by one.

    `expected`: the nodes that must report; those that do not are listed as silent. `details`: whether to keep
    reason and seconds of each row; they differ from node to node and cannot be shared.
    """

    def __init__(self, expected: Sequence[str] = (), details: bool = False) -> None:
        self._details = details
        self._expected = tuple(expected)
        # A node may report its name with the domain while Slurm lists it without. The short name is used only
        # when it is unique: a.rack1 and a.rack2 stay two nodes.
        hosts = Counter(map(_host, expected))
        self._known = frozenset(expected)
        self._short = {_host(name): name for name in expected if hosts[_host(name)] == 1}
        self._drafts: dict[str, _Draft] = {}
        self._failures: list[SourceFailure] = []
        self._superseded: dict[str, int] = {}
        self._shared: dict[Any, Any] = {}

    def add_all(self, items: Iterable[Item]) -> None:
        """Add everything that was read; an unreadable report becomes a failure."""
        for item in items:
            if isinstance(item, ReceivedReport):
                self.add(item)
            else:
                name = None if item.node is None else self._full_name(item.node)
                state = SILENT if item.unreachable else UNDETERMINED
                self._failures.append(SourceFailure(name, item.source, _shorten(item.error)))
                if name is not None and name not in self._drafts:
                    node = Node(
                        name, state, _shorten(item.error), source=item.source, error=_shorten(item.error)
                    )
                    self._drafts[name] = _Draft(node, {}, {}, NOWHERE)

    def add(self, received: ReceivedReport) -> bool:
        """Add one report; False when it names no node, or a newer one of the same node was added before."""
        report = received.report
        name = received.node or _dict(report.get("host")).get("name")
        if not isinstance(name, str) or not name.strip():
            self._failures.append(
                SourceFailure(None, received.source, _("the report does not say which node it is from"))
            )
            return False
        name = self._full_name(name[:300])
        started = _text(report.get("started"))[:40]
        previous = self._drafts.get(name)
        if previous is not None and previous.node.error is None:
            self._superseded[name] = self._superseded.get(name, 0) + 1
            if previous.node.started > started:
                return False
        self._drafts[name] = self._draft(name, started, received)
        return True

    def fleet(self) -> Fleet:
        """The merged result of all reports added, with the expected nodes that never answered."""
        nodes = {name: draft.node for name, draft in self._drafts.items()}
        for name in self._expected:
            if name not in nodes:
                nodes[name] = Node(name, SILENT, _("no report"), error=_("no report"))
        comparison = FleetComparison()
        for name, draft in self._drafts.items():
            if draft.node.error is None:
                comparison.add(name, draft.facts, draft.looked)
        ordered = tuple(nodes[name] for name in sorted(nodes, key=natural_sort_key))
        skew, gaps = comparison.skews()
        failures = tuple(self._failures)
        return Fleet(ordered, self._findings(), skew, failures, self._superseded, gaps)

    def _full_name(self, name: str) -> str:
        return name if name in self._known else self._short.get(_host(name), name)

    def _draft(self, name: str, started: str, received: ReceivedReport) -> _Draft:
        report = received.report
        rows: list[tuple[str, str]] = []
        details: list[tuple[str, float]] = []
        findings: dict[str, tuple[Any, ...]] = {}
        results, misses_needed = report.get("results"), False
        for row in (results if isinstance(results, list) else [])[:MOST_ROWS]:
            if not isinstance(row, dict):  # inline, not _dict(): this runs for each row of each node
                row = {}
            check, status = row.get("check"), row.get("status")
            check = check[:100] if isinstance(check, str) else ""
            rows.append((check, status if status in STATUSES else "unknown"))
            if status not in _ANSWERS and row.get("needed") is True:
                misses_needed = True
            if self._details:
                details.append(
                    (self._share(_shorten(_text(row.get("reason")))), _seconds(row.get("seconds")))
                )
            listed = row.get("findings")
            if listed and isinstance(listed, list):
                for finding in listed[:MOST_FINDINGS]:
                    self._note(check, _dict(finding), findings)
        state = _text(report.get("verdict"))
        # Verdict and exit code must agree and rows must exist, else the report was cut or edited.
        if state not in _STATUS_OF or report.get("exit_code") != _STATUS_OF[state] or not rows:
            state = UNDETERMINED
        elif state == READY and (
            misses_needed
            or report.get("failed")
            or any(finding_entry[1] == "error" for finding_entry in findings.values())
        ):
            state = (
                UNDETERMINED  # the report contradicts itself: "ready" despite an error or a missing answer
            )
        shared = self._share(tuple(rows))
        node = Node(
            name,
            state,
            _shorten(_text(report.get("msg"))),
            started,
            received.source,
            shared,
            self._share(tuple(sorted(findings))),
            details=tuple(details),
            seconds=_seconds(report.get("seconds")),
        )
        report_facts, completed = facts_of(report)
        if received.ahead is not None:
            report_facts["clock"] = NodeFact(clock_text(received.ahead))
        facts = {self._share(fact): self._share(value) for fact, value in report_facts.items()}
        return _Draft(node, findings, facts, self._share(completed))

    def _note(self, check: str, finding: dict[str, Any], findings: dict[str, tuple[Any, ...]]) -> None:
        code, severity = _text(finding.get("code"))[:200], _text(finding.get("severity"))
        if not code or finding.get("ignored") or finding.get("caused_by") or len(findings) >= MOST_FINDINGS:
            return
        if severity not in _SEVERITIES:
            severity = "warning"
        if code not in findings or _SEVERITIES[findings[code][1]] < _SEVERITIES[severity]:
            message = self._share(_shorten(_text(finding.get("message"))))
            action = _text(finding.get("action"))[:40] or "none"
            findings[self._share(code)] = (self._share(check), severity, message, action, self._fix(finding))

    def _fix(self, finding: dict[str, Any]) -> Any:
        fix = finding.get("fix")
        if not isinstance(fix, dict):
            return None
        commands = fix.get("commands")
        lines = [line for line in commands if isinstance(line, str)] if isinstance(commands, list) else []
        return self._share(
            (
                _shorten(_text(fix.get("title"))),
                _text(fix.get("risk"))[:20],
                fix.get("needs_root") is not False,
                tuple(_shorten(line) for line in lines[:MOST_COMMANDS]),
            )
        )

    def _share(self, value: Any) -> Any:
        return self._shared.setdefault(value, value)

    def _findings(self) -> tuple[FleetFinding, ...]:
        nodes: dict[tuple[str, str], list[str]] = {}
        first_entry: dict[tuple[str, str], tuple[Any, ...]] = {}
        messages: dict[tuple[str, str], set[str]] = {}
        fixes: dict[tuple[str, str], set[Any]] = {}
        for name, draft in self._drafts.items():
            for code, entry in draft.findings.items():
                key = (code, entry[1])
                nodes.setdefault(key, []).append(name)
                first_entry.setdefault(key, entry)
                messages.setdefault(key, set()).add(entry[2])
                fixes.setdefault(key, set()).add(entry[4])
        order = sorted(nodes, key=lambda key: (-_SEVERITIES[key[1]], -len(nodes[key]), key))
        findings = []
        for key in order:
            check, severity, message, action, fix = first_entry[key]
            fix_object = fix and {
                "title": fix[0],
                "risk": fix[1],
                "needs_root": fix[2],
                "commands": list(fix[3]),
            }
            variants = len(messages[key]), len(fixes[key])
            findings.append(
                FleetFinding(
                    key[0], check, severity, message, action, fix_object, tuple(nodes[key]), *variants
                )
            )
        return tuple(findings)


def natural_sort_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """The sort key that puts node2 before node10."""
    parts, digits = [], ""
    for char in name + "\0":
        # Not isdigit(): int() rejects some of what it accepts, as superscripts. 18 digits: a longer run is
        # split, as int() raises a ValueError beyond 4300 digits.
        if "0" <= char <= "9" and len(digits) < 18:
            digits += char
            continue
        if digits:
            parts.append((0, int(digits), digits))
            digits = ""
        parts.append((1, 0, char))
    return tuple(parts)


def _host(name: str) -> str:
    """The name without its domain; an IPv4 address stays whole."""
    host = name.partition(".")[0]
    return name if host.isdecimal() else host


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float:
    """A duration in seconds; 0 when the value is missing or impossible."""
    # json accepts NaN, which fails both comparisons, and Infinity.
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e9 else 0.0


def _shorten(text: str) -> str:
    """Cut to LONGEST and redact: an older npudoctor or another program may have written the report."""
    return redact(text if len(text) <= LONGEST else text[:LONGEST] + "...")
