"""Merges the results of `fix` from many nodes: each action with the nodes that have it. Input is
untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.parsing import json_of
from npudoctor.core.redact.redact import redact, redact_value
from npudoctor.fleet.gathering import NodeAnswer

SCHEMA = "npudoctor.fix/1"
STATUSES = ("planned", "applied", "already", "declined", "refused", "failed")
LONGEST, MOST = 2000, 2000  # characters of a text, entries of a list


@dataclass(frozen=True)
class NodeFix:
    """The result of `fix` on one node. `exit_code` is 2 and `document` None when there is no valid answer.

    `error`: why there is none; `document`: the answer with its secrets redacted; `msg`: its one-line summary;
    `run`: the id of the run, for `npudoctor undo`.
    """

    node: str
    exit_code: int = 2
    changed: bool = False
    would_change: bool = False
    failed: bool = True
    run: Optional[str] = None
    actions: tuple[NodeAction, ...] = ()
    document: Optional[Mapping[str, Any]] = None
    error: Optional[str] = None
    msg: str = ""

    @property
    def is_undetermined(self) -> bool:
        """Whether the node answered, but could not decide everything."""
        return self.error is None and self.exit_code not in (0, 1)


@dataclass(frozen=True)
class NodeAction:
    """One action of one node and its outcome. `commands`: the lines that it runs, as they are shown."""

    check: str
    code: str
    status: str
    message: str
    reason: Optional[str]
    commands: tuple[str, ...]


@dataclass(frozen=True)
class FleetAction:
    """The actions of all nodes that share check, code and status; `items` counts them.

    `message` and `reason` are those of the first; `lines`: pairs of the commands and the nodes that run them.
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
    """The results of `fix` on all nodes, and their actions merged."""

    nodes: tuple[NodeFix, ...]
    actions: tuple[FleetAction, ...]

    @property
    def exit_code(self) -> int:
        """1: a problem remains on some node; else 2: some node could not tell or did not answer; else 0."""
        codes = {node.exit_code for node in self.nodes}
        return 1 if 1 in codes else 2 if codes - {0} else 0

    @property
    def planning_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that have something planned."""
        return tuple(
            node.node for node in self.nodes if any(action.status == "planned" for action in node.actions)
        )

    def has_any(self, name: str) -> bool:
        """Whether the field `name` of NodeFix is true on some node."""
        return any(getattr(node, name) for node in self.nodes)


def parse_fix_answer(answer: NodeAnswer) -> NodeFix:
    """Read the answer of a node that ran `fix`; a NodeFix with `error` when it is not a valid one."""
    try:
        # RecursionError: a document nested deeper than Python's stack, which json raises instead of a
        # ValueError.
        document = None if answer.text is None else json_of(answer.text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return NodeFix(answer.node, error=redact(answer.why)[:LONGEST])
    exit_code, run = document.get("exit_code"), document.get("run")
    rows = document.get("actions")
    try:
        redacted = redact_value(document)
    except RecursionError:
        return NodeFix(answer.node, error=_("the report is nested too deeply or is not JSON"))
    return NodeFix(
        answer.node,
        # Only a clear 0 or 1 counts, and "failed" unless the node says false: whatever is missing is not good
        # news.
        exit_code if exit_code in (0, 1) else 2,
        document.get("changed") is True,
        document.get("would_change") is True,
        document.get("failed") is not False,
        run[:LONGEST] if isinstance(run, str) else None,
        tuple(
            _parse_action(row)
            for row in (rows if isinstance(rows, list) else ())[:MOST]
            if isinstance(row, dict)
        ),
        redacted if isinstance(redacted, dict) else None,
        msg=_clean_text(document.get("msg")),
    )


def _parse_action(row: Mapping[str, Any]) -> NodeAction:
    status, commands = row.get("status"), row.get("commands")
    lines = (str(line)[:LONGEST] for line in (commands if isinstance(commands, list) else ())[:MOST])
    reason = row.get("reason")
    return NodeAction(
        _clean_text(row.get("check")),
        _clean_text(row.get("code")),
        status if status in STATUSES else "failed",
        _clean_text(row.get("message") or row.get("title")),
        _clean_text(reason) if reason else None,
        tuple(lines),
    )


def _clean_text(value: object) -> str:
    return redact(value[:LONGEST]) if isinstance(value, str) else ""


def merge_fixes(nodes: Iterable[NodeFix], order: Sequence[str]) -> FleetFix:
    """Merge the answers; of one node the last counts. Failed actions come first, then those on most nodes.

    `order`: the names of the nodes in the order in which they are shown.
    """
    newest = {node.node: node for node in nodes}
    listed = tuple(newest[name] for name in order if name in newest)
    groups: dict[tuple[str, str, str], list[tuple[str, NodeAction]]] = {}
    for node in listed:
        for action in node.actions:
            groups.setdefault((action.check, action.code, action.status), []).append((node.node, action))
    actions = [_merge_actions(rows) for rows in groups.values()]
    actions.sort(key=lambda action: (action.status != "failed", -len(action.nodes)))
    return FleetFix(listed, tuple(actions))


def _merge_actions(rows: Sequence[tuple[str, NodeAction]]) -> FleetAction:
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
