"""A fleet as one page that needs nothing else: no network, no font, no program of others.

Everything that a report says is escaped, and the page forbids itself to load anything. Without scripts it is
whole: the script only filters. Nodes that are alike share one row of the map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from npudoctor import __version__
from npudoctor.core.messages import _, language
from npudoctor.fleet.merge import NOT_READY, READY, SILENT, STATES, UNDETERMINED, Fleet, FleetFinding
from npudoctor.fleet.nodes import fold_nodes
from npudoctor.fleet.skew import Deviation
from npudoctor.render.fleet.page import SCRIPT, STYLE
from npudoctor.render.fleet.text import fix_title, next_lines, one_line, reasons, value_text
from npudoctor.render.printable import printable

_CELLS = {
    "ok": "<td>·</td>",
    "problem": '<td class="problem">!</td>',
    "skipped": "<td></td>",
    **{
        status: f'<td class="unknown">{sign}</td>'
        for status, sign in (("unknown", "?"), ("timeout", "?"), ("crashed", "?"), ("broken", "?"))
    },
}
SHORT = 90  # characters of a node set, about three lines
_ILL_FIRST = (NOT_READY, UNDETERMINED, SILENT, READY)


def fleet_html(fleet: Fleet, made: str = "") -> str:
    """The page; `made`: when, as a person reads it."""
    return "".join(
        (
            *_head(fleet, made),
            *_findings(fleet),
            *_skew(fleet),
            *_map(fleet),
            *_open(fleet),
            f"<script>{SCRIPT}</script></body></html>\n",
        )
    )


def _text(text: str) -> str:
    return escape(printable(text))


def _nodes(names: Iterable[str]) -> str:
    """A set; a long one scrolls in its box, which the keyboard then must reach."""
    text = _text(fold_nodes(names))
    if len(text) <= SHORT:
        return f'<div class="nodes">{text}</div>'
    return f'<div class="nodes many" tabindex="0">{text.replace(",", ",<wbr>")}</div>'


def _head(fleet: Fleet, made: str) -> Iterator[str]:
    title = _text(one_line(fleet))
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    yield f'<!doctype html>\n<html lang="{language()}"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>npudoctor: {title}</title><style>{STYLE}</style></head><body>\n"
    yield f'<h1 class="{fleet.verdict}">{title}</h1>\n'
    yield f"<p>{_text(_(', ').join(_origin(fleet, made)))}</p>\n"
    yield f'<div class="bar"><label for="filter">{_text(_("Filter (press /)"))}</label> '
    yield '<output id="shown" for="filter"></output><br><input id="filter" type="search"></div>\n'
    yield '<div class="wide whole"><table><tbody>'
    for state, name in _state_names().items():
        nodes = fleet.names(state)
        yield f'<tr><th class="state {state}" scope="row">{_text(name)}</th>'
        yield f'<td class="count">{len(nodes)}</td><td>{_nodes(nodes)}</td></tr>'
    yield "</tbody></table></div>\n"


def _origin(fleet: Fleet, made: str) -> Iterator[str]:
    """By which version the page was made and when, and when its reports were."""
    yield f"npudoctor {__version__}"
    if made:
        yield made
    times = sorted(node.started for node in fleet.nodes if node.started)
    if times:
        yield _("reports from {first} to {last}", first=times[0], last=times[-1])


def _state_names() -> dict[str, str]:
    return dict(zip(STATES, (_("ready"), _("not ready"), _("undetermined"), _("silent"))))


def _table(title: str, rows: list[str]) -> Iterator[str]:
    yield f"<section><h2>{_text(title)}</h2>\n"
    if rows:
        yield f'<div class="wide"><table><tbody>\n{"".join(rows)}</tbody></table></div>\n'
    else:
        yield f"<p>{_text(_('none'))}</p>\n"
    yield "</section>\n"


def _findings(fleet: Fleet) -> Iterator[str]:
    """A part of the page, as those beside it: the findings, the worst first, and what to type next."""
    ranked = sorted(fleet.findings, key=lambda finding: (finding.severity == "info", -len(finding.nodes)))
    yield from _table(_("Findings"), ["".join(_finding(finding)) for finding in ranked])
    for line in next_lines(fleet):
        yield f"<pre>{_text(line)}</pre>\n"


def _finding(finding: FleetFinding) -> Iterator[str]:
    yield f'<tr data-row="{finding.severity}"><td class="{finding.severity}">{_text(finding.code)}</td>'
    yield f'<td class="count">{len(finding.nodes)}</td><td>{_nodes(finding.nodes)}</td>'
    yield f'<td class="told">{_text(finding.message)}'
    if finding.variants > 1:
        text = _("({n} different messages; this is the first)", n=finding.variants)
        yield f"<br><small>{_text(text)}</small>"
    if finding.fix:
        lines = "\n".join(map(_text, finding.fix["commands"]))
        yield f"<br>{_text(fix_title(finding))}" + (f"<pre>{lines}</pre>" if lines else "")
    yield "</td></tr>\n"


def _skew(fleet: Fleet) -> Iterator[str]:
    rows = []
    for skew in fleet.skew:
        others = "".join(
            f'<div class="value">{_value(skew.fact, other)}:</div>{_nodes(other.nodes)}'
            for other in skew.deviations
        )
        head = f'<tr data-row="skew"><th scope="row">{_text(skew.fact)}</th>'
        most = f'<td><div class="value">{_value(skew.fact, skew.majority)}</div></td>'
        rows.append(f'{head}{most}<td class="count">{len(skew.majority.nodes)}</td><td>{others}</td></tr>\n')
    yield from _table(_("Skew"), rows)
    if fleet.uncompared:
        rows = [
            f'<tr data-row="skew"><td>{_nodes(gap.nodes)}</td><td>{_text(", ".join(gap.facts))}</td></tr>\n'
            for gap in fleet.uncompared
        ]
        yield from _table(_("No value to compare"), rows)


def _value(fact: str, deviation: Deviation) -> str:
    return f"<b>{_text(value_text(fact, deviation))}</b>"


def _map(fleet: Fleet) -> Iterator[str]:
    """Only checks that are not well somewhere have a column. Nodes that are ill come first."""
    checks = sorted(
        {
            check
            for rows in {node.rows for node in fleet.nodes}
            for check, status in rows
            if status not in ("ok", "skipped")
        }
    )
    groups: dict[tuple[str, str], list[str]] = {}
    cells: dict[tuple[tuple[str, str], ...], str] = {}
    for node in fleet.nodes:
        if node.rows not in cells:
            cells[node.rows] = _cells(checks, node.rows)
        groups.setdefault((node.state, cells[node.rows]), []).append(node.name)
    yield f"<section><h2>{_text(_('Nodes by checks'))}</h2>\n<p>"
    yield _text(_("· ok, ! problem, ? could not be determined, blank: does not apply or was not run"))
    yield '</p>\n<div class="map" tabindex="0"><table><thead>'
    yield f'<tr><th colspan="3">{_text(_("nodes"))}</th>'
    yield "".join(f'<th scope="col"><span>{_text(check)}</span></th>' for check in checks)
    yield "</tr></thead><tbody>\n"
    names = _state_names()
    for (state, signs), nodes in sorted(groups.items(), key=lambda item: _ILL_FIRST.index(item[0][0])):
        yield f'<tr data-row="{state}"><th scope="row">{_nodes(nodes)}</th>'
        yield f'<td class="count">{len(nodes)}</td>'
        yield f'<td class="state {state}">{_text(names[state])}</td>{signs}</tr>\n'
    yield "</tbody></table></div></section>\n"


def _cells(checks: list[str], rows: tuple[tuple[str, str], ...]) -> str:
    """Of one kind of rows: thousands of nodes have few. A blank one says that the check does not apply, so a
    node without a report must not have them."""
    if not rows:
        return f'<td colspan="{len(checks)}">{_text(_("no report"))}</td>' if checks else ""
    statuses = dict(rows)
    return "".join(_CELLS[statuses.get(check, "skipped")] for check in checks)


def _open(fleet: Fleet) -> Iterator[str]:
    """Who gave no answer or no verdict, and why."""
    rows = [
        f'<tr data-row="open"><td>{_nodes(names)}</td><td class="told">{_text(reason)}</td></tr>\n'
        for reason, names in reasons(fleet)
    ]
    yield from _table(_("Unreadable, silent, undetermined"), rows)
