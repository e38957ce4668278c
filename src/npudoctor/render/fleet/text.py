"""Renders merged reports as text in 80 columns: what is wrong where, what differs, the verdict last."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from npudoctor import __version__
from npudoctor.core.messages import _, ngettext
from npudoctor.fleet.merge import (
    NOT_READY,
    READY,
    SILENT,
    STATES,
    UNDETERMINED,
    Fleet,
    FleetFinding,
    SourceFailure,
)
from npudoctor.fleet.nodes import fold_nodes, is_safe_name
from npudoctor.fleet.skew import Deviation
from npudoctor.render.columns import paragraph
from npudoctor.render.printable import printable
from npudoctor.render.style import BOLD, PLAIN, Style

INDENT, DEEPER = " " * 4, " " * 6


def fleet_text(fleet: Fleet, style: Style = PLAIN) -> str:
    """The merged report as text."""
    title = style.paint(f"npudoctor {__version__}", BOLD)
    nodes = ngettext("{n} node", "{n} nodes", len(fleet.nodes), n=len(fleet.nodes))
    lines = [_("{code}: {message}", code=title, message=nodes), ""]
    lines += [
        *_finding_lines(fleet, style),
        *_skew_lines(fleet),
        *_undecided_lines(fleet),
        *_state_lines(fleet),
    ]
    kind = {0: "ok", 1: "error"}.get(fleet.exit_code, "open")
    verdict = style.paint_kind(kind, printable(fleet_line(fleet)), bold=True)
    return "\n".join([*lines, "", verdict, *(f"  {line}" for line in next_lines(fleet))]) + "\n"


def next_lines(fleet: Fleet) -> Iterator[str]:
    """Yield the command that cleans up the nodes that need it; without names that a shell could interpret."""
    dirty = {
        node
        for finding in fleet.findings
        if finding.check == "cache-server" and finding.fix and finding.severity != "info"
        for node in finding.nodes
    }
    nodes = fold_nodes(node.name for node in fleet.nodes if node.name in dirty and is_safe_name(node.name))
    if nodes:
        command = f"npudoctor fleet fix --cache-server -w {shlex.quote(nodes)}"
        yield _("next: {command}", command=command)


def fleet_line(fleet: Fleet) -> str:
    """The verdict with numbers, in one line."""
    count = len(fleet.nodes)
    nodes = {state: len(fleet.names(state)) for state in STATES}
    open_nodes, unread = nodes[UNDETERMINED] + nodes[SILENT], len(_unmatched_failures(fleet))
    if fleet.verdict == READY:
        return _("ready: all {nodes} nodes can train", nodes=count)
    if fleet.verdict == NOT_READY:
        parts = [_("not ready: {not_ready} of {nodes} nodes", not_ready=nodes[NOT_READY], nodes=count)]
        if open_nodes:
            parts.append(_("{open} undetermined or silent", open=open_nodes))
    elif open_nodes:
        parts = [_("undetermined: {open} of {nodes} nodes", open=open_nodes, nodes=count)]
    elif count:
        parts = [
            ngettext(
                "undetermined: {nodes} node is ready",
                "undetermined: {nodes} nodes are ready",
                count,
                nodes=count,
            )
        ]
    else:
        parts = [_("undetermined: no node reported")]
    if unread:
        parts.append(
            ngettext("{n} report could not be read", "{n} reports could not be read", unread, n=unread)
        )
    return _(", ").join(parts)


def _unmatched_failures(fleet: Fleet) -> list[SourceFailure]:
    """Failures that are not the state of any node: the node is unknown, or has another report."""
    failed_names = {node.name for node in fleet.nodes if node.error is not None}
    return [failure for failure in fleet.failures if failure.node not in failed_names]


def _finding_lines(fleet: Fleet, style: Style) -> Iterator[str]:
    serious = [finding for finding in fleet.findings if finding.severity != "info"]
    # Errors first, then by number of nodes: what fifty nodes share is caused by the image or the network.
    serious.sort(key=lambda finding: (finding.severity != "error", -len(finding.nodes)))
    if not serious:
        yield _("findings: none")
        return
    yield _("findings:")
    for finding in serious:
        sign = style.sign(finding.severity)
        first, *rest = paragraph(f"{fold_nodes(finding.nodes)}: {finding.code}", f"{sign} ", INDENT)
        yield style.paint_kind(finding.severity, sign) + first[len(sign) :]
        yield from rest
        count = ngettext("{n} node", "{n} nodes", len(finding.nodes), n=len(finding.nodes))
        text = _("{count}: {message}", count=count, message=finding.message)
        yield from paragraph(text, INDENT, INDENT)
        if finding.variants > 1:
            yield INDENT + _("({n} different messages; this is the first)", n=finding.variants)
        if finding.fix:
            yield from paragraph(fix_title(finding), INDENT, INDENT)
            yield from (f"{DEEPER}{printable(line)}" for line in finding.fix["commands"])


def fix_title(finding: FleetFinding) -> str:
    """The title of the fix; with the first node's name when the commands differ between nodes."""
    title = str(finding.fix and finding.fix["title"])
    if finding.fixes == 1:
        return title
    return _("on {node} (other nodes need other commands): {title}", node=finding.nodes[0], title=title)


def _skew_lines(fleet: Fleet) -> Iterator[str]:
    yield _("skew:") if fleet.skew else _("skew: none")
    for skew in fleet.skew:
        text = ngettext(
            "{value} on {n} node",
            "{value} on {n} nodes",
            len(skew.majority.nodes),
            value=value_text(skew.fact, skew.majority),
            n=len(skew.majority.nodes),
        )
        yield from paragraph(f"{skew.fact}: {text}", "  ", INDENT)
        for deviation in skew.deviations:
            yield from paragraph(
                _(
                    "{value} on {nodes}",
                    value=value_text(skew.fact, deviation),
                    nodes=fold_nodes(deviation.nodes),
                ),
                INDENT,
                DEEPER,
            )
    if fleet.uncompared:
        yield _("no value to compare:")
    for gap in fleet.uncompared:
        yield from paragraph(f"{fold_nodes(gap.nodes)}: {', '.join(gap.facts)}", "  ", INDENT)


def value_text(fact: str, deviation: Deviation) -> str:
    """The value as text; "not set" for a variable without one, "none" for anything else."""
    if deviation.value is not None:
        return deviation.value
    return _("not set") if fact.isupper() and "_" in fact else _("none")


def undecided_by_reason(fleet: Fleet) -> list[tuple[str, list[str]]]:
    """By reason, the nodes or files without a verdict; the most frequent reason first."""
    nodes_by_reason: dict[str, list[str]] = {}
    for node in fleet.nodes:
        if node.state in (UNDETERMINED, SILENT):
            nodes_by_reason.setdefault(node.error or node.msg or _("no reason given"), []).append(node.name)
    for failure in _unmatched_failures(fleet):
        nodes_by_reason.setdefault(failure.error, []).append(failure.node or failure.source)
    return sorted(nodes_by_reason.items(), key=lambda item: -len(item[1]))


def _undecided_lines(fleet: Fleet) -> Iterator[str]:
    """Yield the nodes and files without a verdict, by reason."""
    open_reasons = undecided_by_reason(fleet)
    if not open_reasons:
        yield _("unreadable, silent, undetermined: none")
        return
    yield _("unreadable, silent, undetermined:")
    for reason, names in open_reasons:
        yield from paragraph(f"{fold_nodes(names)}: {reason}", "  ", INDENT)


def _state_lines(fleet: Fleet) -> Iterator[str]:
    titles = {
        READY: _("ready"),
        NOT_READY: _("not ready"),
        UNDETERMINED: _("undetermined"),
        SILENT: _("silent"),
    }
    yield _("nodes:")
    for state, title in titles.items():
        names = fleet.names(state)
        if names:
            yield from paragraph(f"{title} ({len(names)}): {fold_nodes(names)}", "  ", INDENT)
    for name, count in fleet.superseded.items():
        yield from paragraph(
            ngettext(
                "{node}: {n} older report not counted",
                "{node}: {n} older reports not counted",
                count,
                node=name,
                n=count,
            ),
            "  ",
            INDENT,
        )
