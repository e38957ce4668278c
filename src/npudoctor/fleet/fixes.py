"""What `fix` said on many nodes as one: each action with all nodes that have it; all read as hostile data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.parsing import json_of
from npudoctor.core.redact.redact import redact, redact_value
from npudoctor.fleet.gathering import Answer

SCHEMA = "npudoctor.fix/1"
STATUSES = ("planned", "applied", "already", "declined", "refused", "failed")
LONGEST, MOST = 2000, 2000  # characters of a text, entries of a list


@dataclass(frozen=True)
class NodeFix:
    """One node's answer. `error`: why there is none; `document`: the answer as it came, without secrets.

    `msg`: what it says of itself in one line.
    """

    node: str
    exit_code: int = 2
    changed: bool = False
    would_change: bool = False
    failed: bool = True
    run: Optional[str] = None
    actions: tuple[Action, ...] = ()
    document: Optional[Mapping[str, Any]] = None
    error: Optional[str] = None
    msg: str = ""

    @property
    def open(self) -> bool:
        """Whether the node answered, and could not judge everything."""
        return self.error is None and self.exit_code not in (0, 1)


@dataclass(frozen=True)
class Action:
    """One thing to do, and what became of it."""

    check: str
    code: str
    status: str
    message: str
    reason: Optional[str]
    commands: tuple[str, ...]


@dataclass(frozen=True)
class FleetAction:
    """Actions of one code and status: `items` of them on these nodes.

    `message` and `reason` are the first one's; `lines`: each line that runs, with the nodes that run it.
    """

    check: str
    code: str
    status: str
    message: str
    reason: Optional[str]
    nodes: tuple[str, ...]
    items: int
    lines: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@dataclass(frozen=True)
class FleetFix:
    """All nodes together."""

    nodes: tuple[NodeFix, ...]
    actions: tuple[FleetAction, ...]

    @property
    def exit_code(self) -> int:
        """1 something is still there somewhere, else 2 somebody could not tell or did not answer, else 0."""
        codes = {node.exit_code for node in self.nodes}
        return 1 if 1 in codes else 2 if codes - {0} else 0

    @property
    def planned(self) -> tuple[str, ...]:
        """The nodes that would do something."""
        return tuple(
            node.node for node in self.nodes if any(action.status == "planned" for action in node.actions)
        )

    def has_any(self, name: str) -> bool:
        """Whether this field is true on some node."""
        return any(getattr(node, name) for node in self.nodes)


def fix_in(answer: Answer) -> NodeFix:
    """What a node that was asked to fix said, or why it said nothing."""
    try:
        document = None if answer.text is None else json_of(answer.text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return NodeFix(answer.node, error=redact(answer.why)[:LONGEST])
    code, run = document.get("exit_code"), document.get("run")
    rows = document.get("actions")
    try:
        kept = redact_value(document)
    except RecursionError:
        return NodeFix(answer.node, error=_("the report is nested too deeply or is not JSON"))
    return NodeFix(
        answer.node,
        code if code in (0, 1) else 2,
        document.get("changed") is True,
        document.get("would_change") is True,
        document.get("failed") is not False,
        run[:LONGEST] if isinstance(run, str) else None,
        tuple(
            _action(row) for row in (rows if isinstance(rows, list) else ())[:MOST] if isinstance(row, dict)
        ),
        kept if isinstance(kept, dict) else None,
        msg=_text(document.get("msg")),
    )


def _action(row: Mapping[str, Any]) -> Action:
    status, commands = row.get("status"), row.get("commands")
    lines = (str(line)[:LONGEST] for line in (commands if isinstance(commands, list) else ())[:MOST])
    reason = row.get("reason")
    return Action(
        _text(row.get("check")),
        _text(row.get("code")),
        status if status in STATUSES else "failed",
        _text(row.get("message") or row.get("title")),
        _text(reason) if reason else None,
        tuple(lines),
    )


def _text(value: object) -> str:
    return redact(value[:LONGEST]) if isinstance(value, str) else ""


def fold_fixes(nodes: Iterable[NodeFix], order: Sequence[str]) -> FleetFix:
    """The answers as one; the last of a node counts. What fails comes first, then what most nodes have."""
    newest = {node.node: node for node in nodes}
    listed = tuple(newest[name] for name in order if name in newest)
    groups: dict[tuple[str, str, str], list[tuple[str, Action]]] = {}
    for node in listed:
        for action in node.actions:
            groups.setdefault((action.check, action.code, action.status), []).append((node.node, action))
    actions = [_fold(rows) for rows in groups.values()]
    actions.sort(key=lambda action: (action.status != "failed", -len(action.nodes)))
    return FleetFix(listed, tuple(actions))


def _fold(rows: Sequence[tuple[str, Action]]) -> FleetAction:
    first = rows[0][1]
    lines: dict[tuple[str, ...], dict[str, None]] = {}
    for node, action in rows:
        lines.setdefault(action.commands, {})[node] = None
    return FleetAction(
        first.check,
        first.code,
        first.status,
        first.message,
        first.reason,
        tuple(dict.fromkeys(node for node, _action in rows)),
        len(rows),
        tuple((commands, tuple(nodes)) for commands, nodes in lines.items() if commands),
    )
