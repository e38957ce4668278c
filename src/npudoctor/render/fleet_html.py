"""A fleet as one page that needs nothing else: no network, no font, no program of others.

Everything that a report says is escaped, and the page forbids itself to load anything. Without scripts it is
whole: the script only filters. Nodes that are alike share one row of the map.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from npudoctor.core.messages import _, language
from npudoctor.fleet.merge import STATES, Fleet, Node
from npudoctor.fleet.nodes import fold
from npudoctor.fleet.skew import Deviation
from npudoctor.render.fleet_text import one_line
from npudoctor.render.printable import printable

_SIGNS = {
    "ok": "·",
    "problem": "!",
    "skipped": "",
    "unknown": "?",
    "timeout": "?",
    "crashed": "?",
    "broken": "?",
}
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--bad:light-dark(#b3261e,#ff8a80);
--odd:light-dark(#8a5200,#ffb74d);--good:light-dark(#2e7d32,#81c784)}
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:78rem;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
.not_ready,.error,.problem{color:var(--bad)}.ready{color:var(--good)}
.undetermined,.silent,.warning,.unknown,.timeout,.crashed,.broken{color:var(--odd)}
table{border-collapse:collapse}th,td{border:1px solid var(--line);padding:.2rem .5rem;text-align:left}
th,td{vertical-align:top}
.map{overflow:auto;max-height:75vh}
.map thead th{position:sticky;top:0;background:Canvas;vertical-align:bottom}
.map thead th span{writing-mode:vertical-rl;font-weight:400}.map td{text-align:center}
.nodes{font-family:ui-monospace,monospace;font-weight:400;overflow-wrap:anywhere;min-width:14rem}
td.nodes{max-width:26rem}div.nodes{max-height:6em;overflow:auto}.told{min-width:22rem}
pre{background:#8882;padding:.5rem;white-space:pre-wrap;overflow-wrap:anywhere}
input{font:inherit;padding:.3rem;width:100%;max-width:30rem}
:focus-visible{outline:2px solid Highlight}
@media print{input,label{display:none}.map,div.nodes{max-height:none;overflow:visible}body{max-width:none}}
"""
# A row stays when each word stands in it, or names a node of its folded set: node17 is in node[1-37].
_SCRIPT = """
const box=document.getElementById('filter'),rows=[...document.querySelectorAll('[data-row]')];
const texts=rows.map(r=>(r.dataset.row+' '+r.textContent).toLowerCase());
const sets=rows.map(r=>[...r.querySelectorAll('.nodes')]
.flatMap(e=>e.textContent.match(/[^,[]*\\[[^\\]]*\\][^,]*/g)||[])
.map(t=>/^(.*)\\[(.*)\\](.*)$/.exec(t.toLowerCase())).filter(Boolean)
.map(m=>[m[1],m[3],m[2].split(',').map(p=>{const [a,b]=p.split('-');return [+a,+(b||a),a.length]})]));
const inSet=(w,[head,tail,spans])=>{if(!w.startsWith(head)||!w.endsWith(tail))return false;
const n=w.slice(head.length,w.length-tail.length);
return /^\\d+$/.test(n)&&spans.some(([a,b,l])=>+n>=a&&+n<=b&&(n[0]!=='0'||n.length===l))};
box.addEventListener('input',()=>{const w=box.value.toLowerCase().split(/\\s+/);
rows.forEach((r,i)=>{r.hidden=!w.every(x=>texts[i].includes(x)||sets[i].some(s=>inSet(x,s)))})});
document.addEventListener('keydown',e=>{if(e.key==='/'&&document.activeElement!==box){e.preventDefault();box.focus()}
if(e.key==='Escape'){box.value='';box.dispatchEvent(new Event('input'));box.blur()}});
"""


def fleet_html(fleet: Fleet) -> str:
    """The page."""
    return "".join(
        (*_head(fleet), *_findings(fleet), *_skew(fleet), *_map(fleet), *_failures(fleet), *_foot())
    )


def _text(text: str) -> str:
    return escape(printable(text))


def _head(fleet: Fleet) -> Iterator[str]:
    title = _text(one_line(fleet))
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    yield f'<!doctype html>\n<html lang="{language()}"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>npudoctor: {title}</title><style>{_STYLE}</style></head><body>\n"
    yield f'<h1 class="{fleet.verdict}">{title}</h1>\n'
    yield f'<label for="filter">{_text(_("Filter (press /)"))}</label><br><input id="filter" type="search">\n'
    yield "<table><tbody>"
    titles = (_("ready"), _("not ready"), _("undetermined"), _("silent"))
    for state, name in zip(STATES, titles):
        nodes = fleet.names(state)
        yield f'<tr><th class="{state}" scope="row">{_text(name)}</th><td>{len(nodes)}</td>'
        yield f'<td><div class="nodes" tabindex="0">{_text(fold(nodes))}</div></td></tr>'
    yield "</tbody></table>\n"


def _findings(fleet: Fleet) -> Iterator[str]:
    yield f"<h2>{_text(_('Findings'))}</h2>\n"
    if not fleet.findings:
        yield f"<p>{_text(_('none'))}</p>\n"
        return
    yield "<table><tbody>\n"
    for finding in sorted(
        fleet.findings, key=lambda finding: (finding.severity == "info", -len(finding.nodes))
    ):
        yield f'<tr data-row="{finding.severity}">'
        yield f'<td class="{finding.severity}">{_text(finding.code)}</td>'
        yield f'<td>{len(finding.nodes)}</td><td class="nodes">'
        yield f'<div class="nodes" tabindex="0">{_text(fold(finding.nodes))}</div></td>'
        yield f'<td class="told">{_text(finding.message)}'
        if finding.fix and finding.fix["commands"]:
            lines = "\n".join(map(_text, finding.fix["commands"]))
            yield f"<br>{_text(finding.fix['title'])}<pre>{lines}</pre>"
        yield "</td></tr>\n"
    yield "</tbody></table>\n"


def _skew(fleet: Fleet) -> Iterator[str]:
    yield f"<h2>{_text(_('Skew'))}</h2>\n"
    if not fleet.skew:
        yield f"<p>{_text(_('none'))}</p>\n"
        return
    yield "<table><tbody>\n"
    for skew in fleet.skew:
        yield f'<tr data-row="skew"><th scope="row">{_text(skew.fact)}</th>'
        yield f"<td>{_value(skew.majority)} ({len(skew.majority.nodes)})</td><td>"
        yield "<br>".join(
            f'{_value(other)}: <span class="nodes">{_text(fold(other.nodes))}</span>' for other in skew.others
        )
        yield "</td></tr>\n"
    yield "</tbody></table>\n"


def _value(deviation: Deviation) -> str:
    return f"<b>{_text(_('not set') if deviation.value is None else deviation.value)}</b>"


def _map(fleet: Fleet) -> Iterator[str]:
    """Only checks that are not well somewhere have a column."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Node]] = {}
    for node in fleet.nodes:
        groups.setdefault((node.state, node.rows), []).append(node)
    checks = sorted(
        {check for _state, rows in groups for check, status in rows if status not in ("ok", "skipped")}
    )
    yield f"<h2>{_text(_('Nodes by checks'))}</h2>\n"
    yield f'<div class="map" tabindex="0"><table><thead><tr><th>{_text(_("nodes"))}</th>'
    yield "".join(f'<th scope="col"><span>{_text(check)}</span></th>' for check in checks)
    yield "</tr></thead><tbody>\n"
    for (state, rows), nodes in groups.items():
        statuses = dict(rows)
        name = _text(fold(node.name for node in nodes))
        yield f'<tr data-row="{state}"><th scope="row" class="nodes {state}">{name}</th>'
        for check in checks:
            status = statuses.get(check, "")
            yield f'<td class="{status}" title="{_text(check)}: {status}">{_SIGNS.get(status, "")}</td>'
        yield "</tr>\n"
    yield "</tbody></table></div>\n"


def _failures(fleet: Fleet) -> Iterator[str]:
    if fleet.failures:
        yield f"<h2>{_text(_('Unreadable or unreachable'))}</h2>\n<table><tbody>\n"
        for failure in fleet.failures:
            name = failure.node or failure.source
            yield f'<tr data-row="silent"><td class="nodes">{_text(name)}</td>'
            yield f"<td>{_text(failure.error)}</td></tr>\n"
        yield "</tbody></table>\n"


def _foot() -> Iterator[str]:
    yield f"<script>{_SCRIPT}</script></body></html>\n"
