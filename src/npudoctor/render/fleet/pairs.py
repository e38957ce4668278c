"""Renders which nodes reach which: as text, and as npudoctor.pairs/1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from npudoctor import __version__
from npudoctor.core.messages import _, ngettext
from npudoctor.fleet.nodes import fold_nodes
from npudoctor.fleet.pairs import BlockedAttempts, Reachability, port_text
from npudoctor.render.columns import paragraph

SCHEMA = "npudoctor.pairs/1"
INDENT, DEEPER = "  ", "    "


def pairs_text(reach: Reachability, ports: Iterable[int]) -> str:
    """Blocked connections, nodes that took no part, and the summary."""
    port_set = port_text(ports)
    lines = [line for text in _sentences(reach, port_set) for line in paragraph(text, INDENT, DEEPER)]
    return "\n".join([*lines, pairs_line(reach, port_set)]) + "\n"


def _sentences(reach: Reachability, ports: str) -> Iterator[str]:
    for why, nodes in _by_reason(reach.deaf):
        yield ngettext(
            "{nodes} accepts no connections on {ports}: {why}",
            "{nodes} accept no connections on {ports}: {why}",
            len(nodes),
            nodes=fold_nodes(nodes),
            ports=ports,
            why=reason_text(why),
        )
    for why, nodes in _by_reason(reach.mute):
        yield ngettext(
            "{nodes} reaches no other node on {ports}: {why}",
            "{nodes} reach no other node on {ports}: {why}",
            len(nodes),
            nodes=fold_nodes(nodes),
            ports=ports,
            why=reason_text(why),
        )
    yield from map(_blocked_text, reach.blocked)
    for side in reach.connections:
        for why, held in _by_reason({str(port): why for port, why in side.held.items()}):
            yield _(
                "{node} cannot listen on {ports}: {why}",
                node=side.node,
                ports=port_text(map(int, held)),
                why=reason_text(why),
            )
    for why, nodes in _by_reason({side.node: side.error or "" for side in reach.absent_nodes}):
        yield _("{nodes} did not take part: {why}", nodes=fold_nodes(nodes), why=why)


def _blocked_text(blocked: BlockedAttempts) -> str:
    return _(
        "{sources} cannot connect to {targets} on {ports}: {reason}",
        sources=fold_nodes(blocked.sources),
        targets=fold_nodes(blocked.targets),
        ports=port_text(blocked.ports),
        reason=reason_text(blocked.reason),
    )


def reason_text(reason: str) -> str:
    """A node's reason in the language of the output, when it is one that npudoctor itself gives."""
    translations = {
        "no answer": _("no answer, as when a firewall drops packets"),
        "the name is not known": _("the host name cannot be resolved"),
        "another machine answers": _("something else answers at this address"),
        "Connection refused": _("refused"),
    }
    return translations.get(reason, reason)


def _by_reason(reasons: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for name, why in reasons.items():
        groups.setdefault(why, []).append(name)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def pairs_line(reach: Reachability, ports: str) -> str:
    """The verdict with numbers, in one line."""
    participants = len(reach.connections) - len(reach.absent_nodes)
    numbers = {
        "nodes": participants,
        "ports": ports,
        "attempts": reach.attempts,
        "silent": len(reach.absent_nodes),
    }
    if not participants:
        return _("none of {nodes} nodes took part", nodes=len(reach.connections))
    if reach.exit_code == 0:
        return _("all {nodes} nodes reach each other on {ports} ({attempts} connections)", **numbers)
    if reach.exit_code == 1:
        line = _(
            "not all of {nodes} nodes reach each other on {ports} ({attempts} connections tried)", **numbers
        )
        return (
            _("{result}; {silent} did not take part", result=line, **numbers) if reach.absent_nodes else line
        )
    return _("{nodes} nodes reach each other on {ports}; {silent} did not take part", **numbers)


def pairs_object(
    reach: Reachability, ports: Iterable[int], started: str, seconds: float, engine: str
) -> dict[str, Any]:
    """The npudoctor.pairs/1 document as plain data."""
    port_list = sorted(ports)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "started": started,
        "seconds": round(seconds, 3),
        "engine": engine,
        "ports": port_list,
        "exit_code": reach.exit_code,
        "changed": False,
        "failed": reach.exit_code != 0,
        "msg": pairs_line(reach, port_text(port_list)),
        "attempts": reach.attempts,
        "nodes": {
            "taking_part": fold_nodes(side.node for side in reach.connections if side.error is None),
            "silent": fold_nodes(side.node for side in reach.absent_nodes),
        },
        "deaf": [{"nodes": fold_nodes(nodes), "reason": why} for why, nodes in _by_reason(reach.deaf)],
        "mute": [{"nodes": fold_nodes(nodes), "reason": why} for why, nodes in _by_reason(reach.mute)],
        "blocked": [
            {
                "sources": fold_nodes(row.sources),
                "targets": fold_nodes(row.targets),
                "ports": sorted(row.ports),
                "reason": row.reason,
            }
            for row in reach.blocked
        ],
        "held": [
            {"node": side.node, "port": port, "reason": why}
            for side in reach.connections
            for port, why in sorted(side.held.items())
        ],
        "errors": [{"node": side.node, "error": side.error} for side in reach.absent_nodes],
    }
