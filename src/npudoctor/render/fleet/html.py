"""Renders merged reports as one self-contained HTML page: no network, no fonts, no libraries.

All text from reports is escaped, and the page's policy forbids loading anything. Without scripts the page is
complete: the script only filters. Nodes with equal rows share one row of the map.
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
from npudoctor.render.fleet.text import fix_title, fleet_line, next_lines, undecided_by_reason, value_text
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
SHORT = 90  # characters of a node set that is shown without a scroll box, about three lines
_ILL_FIRST = (NOT_READY, UNDETERMINED, SILENT, READY)


def fleet_html(fleet: Fleet, made: str = "") -> str:
    """The page; `made`: when it was made, as text."""
    return "".join(
        (
            *_head_section(fleet, made),
            *_findings_section(fleet),
            *_skew_section(fleet),
            *_map_section(fleet),
            *_undecided_section(fleet),
            f"<script>{SCRIPT}</script></body></html>\n",
        )
    )


def _html(text: str) -> str:
    return escape(printable(text))


def _set(names: Iterable[str]) -> str:
    """A node set; a long one scrolls in a box, which gets a tabindex so that the keyboard can reach it."""
    text = _html(fold_nodes(names))
    if len(text) <= SHORT:
        return f'<div class="nodes">{text}</div>'
    return f'<div class="nodes many" tabindex="0">{text.replace(",", ",<wbr>")}</div>'


def _head_section(fleet: Fleet, made: str) -> Iterator[str]:
    title = _html(fleet_line(fleet))
    # Even if some text were not escaped, the page could load nothing and send nothing.
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    yield f'<!doctype html>\n<html lang="{language()}"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>npudoctor: {title}</title><style>{STYLE}</style></head><body>\n"
    yield f'<h1 class="{fleet.verdict}">{title}</h1>\n'
    yield f"<p>{_html(_(', ').join(_origin_texts(fleet, made)))}</p>\n"
    yield f'<div class="bar"><label for="filter">{_html(_("Filter (press /)"))}</label> '
    yield '<output id="shown" for="filter"></output><br><input id="filter" type="search"></div>\n'
    yield '<div class="wide whole"><table><tbody>'
    for state, name in _state_names().items():
        nodes = fleet.names(state)
        yield f'<tr><th class="state {state}" scope="row">{_html(name)}</th>'
        yield f'<td class="count">{len(nodes)}</td><td>{_set(nodes)}</td></tr>'
    yield "</tbody></table></div>\n"


def _origin_texts(fleet: Fleet, made: str) -> Iterator[str]:
    """Yield the version, the time of the page, and the times of its reports."""
    yield f"npudoctor {__version__}"
    if made:
        yield made
    times = sorted(node.started for node in fleet.nodes if node.started)
    if times:
        yield _("reports from {first} to {last}", first=times[0], last=times[-1])


def _state_names() -> dict[str, str]:
    return dict(zip(STATES, (_("ready"), _("not ready"), _("undetermined"), _("silent"))))


def _table_section(title: str, rows: list[str]) -> Iterator[str]:
    yield f"<section><h2>{_html(title)}</h2>\n"
    if rows:
        yield f'<div class="wide"><table><tbody>\n{"".join(rows)}</tbody></table></div>\n'
    else:
        yield f"<p>{_html(_('none'))}</p>\n"
    yield "</section>\n"


def _findings_section(fleet: Fleet) -> Iterator[str]:
    """Yield the section of findings, the worst first, and the command to type next."""
    ranked = sorted(fleet.findings, key=lambda finding: (finding.severity == "info", -len(finding.nodes)))
    yield from _table_section(_("Findings"), ["".join(_finding_row(finding)) for finding in ranked])
    for line in next_lines(fleet):
        yield f"<pre>{_html(line)}</pre>\n"


def _finding_row(finding: FleetFinding) -> Iterator[str]:
    yield f'<tr data-row="{finding.severity}"><td class="{finding.severity}">{_html(finding.code)}</td>'
    yield f'<td class="count">{len(finding.nodes)}</td><td>{_set(finding.nodes)}</td>'
    yield f'<td class="told">{_html(finding.message)}'
    if finding.variants > 1:
        text = _("({n} different messages; this is the first)", n=finding.variants)
        yield f"<br><small>{_html(text)}</small>"
    if finding.fix:
        lines = "\n".join(map(_html, finding.fix["commands"]))
        yield f"<br>{_html(fix_title(finding))}" + (f"<pre>{lines}</pre>" if lines else "")
    yield "</td></tr>\n"


def _skew_section(fleet: Fleet) -> Iterator[str]:
    rows = []
    for skew in fleet.skew:
        deviations = "".join(
            f'<div class="value">{_value_html(skew.fact, deviation)}:</div>{_set(deviation.nodes)}'
            for deviation in skew.deviations
        )
        head = f'<tr data-row="skew"><th scope="row">{_html(skew.fact)}</th>'
        most = f'<td><div class="value">{_value_html(skew.fact, skew.majority)}</div></td>'
        rows.append(
            f'{head}{most}<td class="count">{len(skew.majority.nodes)}</td><td>{deviations}</td></tr>\n'
        )
    yield from _table_section(_("Skew"), rows)
    if fleet.uncompared:
        rows = [
            f'<tr data-row="skew"><td>{_set(gap.nodes)}</td><td>{_html(", ".join(gap.facts))}</td></tr>\n'
            for gap in fleet.uncompared
        ]
        yield from _table_section(_("No value to compare"), rows)


def _value_html(fact: str, deviation: Deviation) -> str:
    return f"<b>{_html(value_text(fact, deviation))}</b>"


def _map_section(fleet: Fleet) -> Iterator[str]:
    """Yield the map of nodes and checks: only checks with a problem somewhere; failing nodes first."""
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
    yield f"<section><h2>{_html(_('Nodes by checks'))}</h2>\n<p>"
    yield _html(_("· ok, ! problem, ? could not be determined, blank: does not apply or was not run"))
    yield '</p>\n<div class="map" tabindex="0"><table><thead>'
    yield f'<tr><th colspan="3">{_html(_("nodes"))}</th>'
    yield "".join(f'<th scope="col"><span>{_html(check)}</span></th>' for check in checks)
    yield "</tr></thead><tbody>\n"
    names = _state_names()
    for (state, signs), nodes in sorted(groups.items(), key=lambda item: _ILL_FIRST.index(item[0][0])):
        yield f'<tr data-row="{state}"><th scope="row">{_set(nodes)}</th>'
        yield f'<td class="count">{len(nodes)}</td>'
        yield f'<td class="state {state}">{_html(names[state])}</td>{signs}</tr>\n'
    yield "</tbody></table></div></section>\n"


def _cells(checks: list[str], rows: tuple[tuple[str, str], ...]) -> str:
    """The cells for one set of rows, made once for all nodes that share it.

    A blank cell means that the check does not apply, so that a node without a report gets a single cell.
    """
    if not rows:
        return f'<td colspan="{len(checks)}">{_html(_("no report"))}</td>' if checks else ""
    statuses = dict(rows)
    return "".join(_CELLS[statuses.get(check, "skipped")] for check in checks)


def _undecided_section(fleet: Fleet) -> Iterator[str]:
    """Yield the section of nodes and files without a verdict, by reason."""
    rows = [
        f'<tr data-row="open"><td>{_set(names)}</td><td class="told">{_html(reason)}</td></tr>\n'
        for reason, names in undecided_by_reason(fleet)
    ]
    yield from _table_section(_("Unreadable, silent, undetermined"), rows)
