"""Renders the plan and the result of `fleet fix`: as text, and as npudoctor.fleet-fix/1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor import __version__
from npudoctor.core.messages import _, ngettext
from npudoctor.fixing.outcome import ActionStatus
from npudoctor.fleet.fixes import FleetAction, FleetFix
from npudoctor.fleet.nodes import fold_nodes
from npudoctor.render.columns import paragraph
from npudoctor.render.fix import DEEPER, INDENT, status_words
from npudoctor.render.printable import printable

SCHEMA = "npudoctor.fleet-fix/1"


def fleet_fix_text(fleet: FleetFix) -> str:
    """Each action with its nodes and the lines that run there, nodes without an answer, and the summary."""
    lines = [line for action in fleet.actions for line in _action_lines(action)]
    reasons: dict[str, list[str]] = {}
    doubts: dict[str, list[str]] = {}
    for node in fleet.nodes:
        if node.error is not None:
            reasons.setdefault(node.error, []).append(node.node)
        elif node.is_undetermined:
            doubts.setdefault(node.msg or _("no reason given"), []).append(node.node)
    for text, groups in (
        (_("could not check everything on {nodes}: {why}"), doubts),
        (_("no answer from {nodes}: {why}"), reasons),
    ):
        for why, names in sorted(groups.items(), key=lambda item: -len(item[1])):
            lines += paragraph(text.format(nodes=fold_nodes(names), why=why), INDENT, DEEPER)
    return "\n".join([*lines, fleet_fix_line(fleet)]) + "\n"


def _action_lines(action: FleetAction) -> Iterator[str]:
    word = status_words()[ActionStatus(action.status)]
    count = ngettext("{n} node", "{n} nodes", len(action.nodes), n=len(action.nodes))
    yield from paragraph(f"{word}: {action.code}: {fold_nodes(action.nodes)} ({count})", INDENT, DEEPER)
    yield from paragraph(action.message, DEEPER, DEEPER)
    if action.items > 1:
        yield DEEPER + _("({n} of these; this is the first)", n=action.items)
    if action.reason:
        yield from paragraph(_("why: {reason}", reason=action.reason), DEEPER, DEEPER)
    for commands, nodes in action.lines:
        if len(action.lines) > 1:
            yield from paragraph(f"{fold_nodes(nodes)}:", DEEPER, DEEPER)
        yield from (f"{DEEPER}$ {printable(command)}" for command in commands)


def fleet_fix_line(fleet: FleetFix) -> str:
    """The summary of all nodes with numbers, in one line."""
    silent = sum(node.error is not None for node in fleet.nodes)
    remaining_nodes = sum(node.exit_code == 1 for node in fleet.nodes)
    changed = sum(node.changed for node in fleet.nodes)
    doubtful = sum(node.is_undetermined for node in fleet.nodes)
    parts = [ngettext("{n} node", "{n} nodes", len(fleet.nodes), n=len(fleet.nodes))]
    if changed:
        parts.append(_("changed {n}", n=changed))
    if remaining_nodes:
        parts.append(_("findings remain on {n}", n=remaining_nodes))
    if doubtful:
        parts.append(_("could not check everything on {n}", n=doubtful))
    if silent:
        parts.append(_("no answer from {n}", n=silent))
    if len(parts) == 1:
        parts.append(_("nothing to do"))
    return ", ".join(parts)


def fleet_fix_object(fleet: FleetFix, started: str, seconds: float, engine: str) -> dict[str, Any]:
    """The npudoctor.fleet-fix/1 document as plain data."""
    groups = {
        "done": [node.node for node in fleet.nodes if node.exit_code == 0],
        "left": [node.node for node in fleet.nodes if node.exit_code == 1],
        "undetermined": [node.node for node in fleet.nodes if node.is_undetermined],
        "silent": [node.node for node in fleet.nodes if node.error is not None],
    }
    return {
        "schema": SCHEMA,
        "version": __version__,
        "started": started,
        "seconds": round(seconds, 3),
        "engine": engine,
        "exit_code": fleet.exit_code,
        "changed": fleet.has_any("changed"),
        "would_change": fleet.has_any("would_change"),
        "failed": fleet.has_any("failed"),
        "msg": fleet_fix_line(fleet),
        "nodes": {name: fold_nodes(names) for name, names in groups.items()},
        "actions": [_action_object(action) for action in fleet.actions],
        "reports": [
            {"node": node.node, "error": node.error}
            if node.document is None
            else {"node": node.node, "report": node.document}
            for node in fleet.nodes
        ],
    }


def _action_object(action: FleetAction) -> dict[str, Any]:
    return {
        "check": action.check,
        "code": action.code,
        "status": action.status,
        "message": action.message,
        "reason": action.reason,
        "items": action.items,
        "nodes": fold_nodes(action.nodes),
        "lines": [
            {"commands": list(commands), "nodes": fold_nodes(nodes)} for commands, nodes in action.lines
        ],
    }
