"""Many reports as one: who is ready, what is wrong where, what differs. Of each report only that is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact
from npudoctor.fleet.reading import Found, Item
from npudoctor.fleet.skew import NOWHERE, Comparison, Gap, Looked, Skew, Told, clock_text, facts_of

READY, NOT_READY, UNDETERMINED, SILENT = "ready", "not_ready", "undetermined", "silent"
STATES = (READY, NOT_READY, UNDETERMINED, SILENT)
_STATUS_OF = {READY: 0, NOT_READY: 1, UNDETERMINED: 2}
_SEVERITIES = {"error": 3, "warning": 2, "info": 1}
STATUSES = ("ok", "problem", "skipped", "unknown", "timeout", "crashed", "broken")
_ANSWERS = ("ok", "problem", "skipped")  # of a check that is needed: with another no node is ready
LONGEST = 2000  # characters of a message
MOST_ROWS, MOST_FINDINGS, MOST_COMMANDS = 1000, 2000, 40


@dataclass(frozen=True)
class Node:
    """What is kept of one node. `rows`: (check, status) pairs, shared between nodes that are alike.

    `details`: of each of the rows the reason and the seconds, where the Merger keeps them; `seconds`: of all.
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
    """One code on all nodes that have it. `message` and `fix` are the first node's.

    `variants`, `fixes`: how many different ones there are; a fix names what lies on that node alone.
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
class Failure:
    """A source that could not be read, or a node that could not be reached."""

    node: Optional[str]
    source: str
    error: str


@dataclass(frozen=True)
class Fleet:
    """All nodes together."""

    nodes: tuple[Node, ...]
    findings: tuple[FleetFinding, ...]
    skew: tuple[Skew, ...]
    failures: tuple[Failure, ...]
    superseded: Mapping[str, int] = field(default_factory=dict)
    uncompared: tuple[Gap, ...] = ()

    def names(self, state: str) -> tuple[str, ...]:
        """The nodes in this state."""
        return tuple(node.name for node in self.nodes if node.state == state)

    @property
    def verdict(self) -> str:
        """not_ready before undetermined before ready, as for one node."""
        states = {node.state for node in self.nodes}
        if NOT_READY in states:
            return NOT_READY
        return READY if states == {READY} and not self.failures else UNDETERMINED

    @property
    def exit_code(self) -> int:
        """0 all ready, 1 some not, 2 some undetermined or unreachable."""
        return _STATUS_OF[self.verdict]


class _Draft:
    """One report reduced to what is kept of it."""

    __slots__ = ("facts", "findings", "looked", "node")

    def __init__(
        self, node: Node, findings: dict[str, tuple[Any, ...]], facts: dict[str, Told], looked: Looked
    ) -> None:
        self.node, self.findings, self.facts, self.looked = node, findings, facts, looked


class Merger:
    """Takes reports one by one; `expected`: nodes that were asked for; `details`: whether the reason and the
    seconds of each row are kept, which differ from node to node."""

    def __init__(self, expected: Sequence[str] = (), details: bool = False) -> None:
        self._details = details
        self._expected = tuple(expected)
        # A node may report with its domain while Slurm knows it without; two of one name are told apart.
        hosts = Counter(map(_host, expected))
        self._known = frozenset(expected)
        self._short = {_host(name): name for name in expected if hosts[_host(name)] == 1}
        self._drafts: dict[str, _Draft] = {}
        self._failures: list[Failure] = []
        self._superseded: dict[str, int] = {}
        self._shared: dict[Any, Any] = {}

    def add_all(self, items: Iterable[Item]) -> None:
        """Add what was read."""
        for item in items:
            if isinstance(item, Found):
                self.add(item)
            else:
                name = None if item.node is None else self._full_name(item.node)
                state = SILENT if item.unreachable else UNDETERMINED
                self._failures.append(Failure(name, item.source, _shorten(item.error)))
                if name is not None and name not in self._drafts:
                    node = Node(
                        name, state, _shorten(item.error), source=item.source, error=_shorten(item.error)
                    )
                    self._drafts[name] = _Draft(node, {}, {}, NOWHERE)

    def add(self, found: Found) -> bool:
        """Add one report; False when a newer one of this node is known."""
        report = found.report
        name = found.node or _dict(report.get("host")).get("name")
        if not isinstance(name, str) or not name.strip():
            self._failures.append(
                Failure(None, found.source, _("the report does not say which node it is from"))
            )
            return False
        name = self._full_name(name[:300])
        started = _text(report.get("started"))[:40]
        before = self._drafts.get(name)
        if before is not None and before.node.error is None:
            self._superseded[name] = self._superseded.get(name, 0) + 1
            if before.node.started > started:
                return False
        self._drafts[name] = self._draft(name, started, found)
        return True

    def fleet(self) -> Fleet:
        """All that was added, and the nodes that never answered."""
        nodes = {name: draft.node for name, draft in self._drafts.items()}
        for name in self._expected:
            if name not in nodes:
                nodes[name] = Node(name, SILENT, _("no report"), error=_("no report"))
        comparison = Comparison()
        for name, draft in self._drafts.items():
            if draft.node.error is None:
                comparison.add(name, draft.facts, draft.looked)
        ordered = tuple(nodes[name] for name in sorted(nodes, key=natural))
        skew, gaps = comparison.skews()
        failures = tuple(self._failures)
        return Fleet(ordered, self._findings(), skew, failures, self._superseded, gaps)

    def _full_name(self, name: str) -> str:
        return name if name in self._known else self._short.get(_host(name), name)

    def _draft(self, name: str, started: str, found: Found) -> _Draft:
        report = found.report
        rows: list[tuple[str, str]] = []
        details: list[tuple[str, float]] = []
        findings: dict[str, tuple[Any, ...]] = {}
        results, missing = report.get("results"), False
        for row in (results if isinstance(results, list) else [])[:MOST_ROWS]:
            if not isinstance(row, dict):  # of each row of each node: calls would count
                row = {}
            check, status = row.get("check"), row.get("status")
            check = check[:100] if isinstance(check, str) else ""
            rows.append((check, status if status in STATUSES else "unknown"))
            if status not in _ANSWERS and row.get("needed") is True:
                missing = True
            if self._details:
                details.append(
                    (self._share(_shorten(_text(row.get("reason")))), _seconds(row.get("seconds")))
                )
            listed = row.get("findings")
            if listed and isinstance(listed, list):
                for finding in listed[:MOST_FINDINGS]:
                    self._note(check, _dict(finding), findings)
        state = _text(report.get("verdict"))
        if state not in _STATUS_OF or report.get("exit_code") != _STATUS_OF[state] or not rows:
            state = UNDETERMINED
        elif state == READY and (
            missing or report.get("failed") or any(kept[1] == "error" for kept in findings.values())
        ):
            state = UNDETERMINED  # it contradicts itself, and what counts does not say ready
        shared = self._share(tuple(rows))
        node = Node(
            name,
            state,
            _shorten(_text(report.get("msg"))),
            started,
            found.source,
            shared,
            self._share(tuple(sorted(findings))),
            details=tuple(details),
            seconds=_seconds(report.get("seconds")),
        )
        report_facts, looked = facts_of(report)
        if found.ahead is not None:
            report_facts["clock"] = Told(clock_text(found.ahead))
        facts = {self._share(fact): self._share(value) for fact, value in report_facts.items()}
        return _Draft(node, findings, facts, self._share(looked))

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
        first: dict[tuple[str, str], tuple[Any, ...]] = {}
        messages: dict[tuple[str, str], set[str]] = {}
        fixes: dict[tuple[str, str], set[Any]] = {}
        for name, draft in self._drafts.items():
            for code, found in draft.findings.items():
                key = (code, found[1])
                nodes.setdefault(key, []).append(name)
                first.setdefault(key, found)
                messages.setdefault(key, set()).add(found[2])
                fixes.setdefault(key, set()).add(found[4])
        order = sorted(nodes, key=lambda key: (-_SEVERITIES[key[1]], -len(nodes[key]), key))
        findings = []
        for key in order:
            check, severity, message, action, fix = first[key]
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


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """node2 before node10."""
    parts, digits = [], ""
    for char in name + "\0":
        if "0" <= char <= "9" and len(digits) < 18:
            digits += char
            continue
        if digits:
            parts.append((0, int(digits), digits))
            digits = ""
        parts.append((1, 0, char))
    return tuple(parts)


def _host(name: str) -> str:
    """The name without its domain; an address is one word."""
    host = name.partition(".")[0]
    return name if host.isdecimal() else host


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float:
    """A duration; 0 where there is none, or none that can be."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e9 else 0.0


def _shorten(text: str) -> str:
    """Without secrets: who wrote the report may have been an older npudoctor, or no npudoctor at all."""
    return redact(text if len(text) <= LONGEST else text[:LONGEST] + "...")
