"""Style and script of the HTML page. The script only filters: without it the page is complete."""

from __future__ import annotations

STYLE = r"""
:root{color-scheme:light dark;--line:#8884;--bad:#b3261e;--odd:#8a5200;--good:#2e7d32}
@media (prefers-color-scheme:dark){:root{--bad:#ff8a80;--odd:#ffb74d;--good:#81c784}}
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:78rem;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
.not_ready,.error,.problem{color:var(--bad)}.ready{color:var(--good)}
.undetermined,.silent,.warning,.unknown{color:var(--odd)}
table{border-collapse:collapse}th,td{border:1px solid var(--line);padding:.2rem .5rem;text-align:left}
th,td{vertical-align:top}.count{text-align:right}.state{white-space:nowrap}
.wide{overflow-x:auto}
.map{overflow:auto;max-height:75vh;content-visibility:auto;contain-intrinsic-size:auto 75vh}
.map thead th{position:sticky;top:0;background:Canvas;vertical-align:bottom}
.map thead span{writing-mode:vertical-rl;font-weight:400}
.map td{text-align:center}.map td.count{text-align:right}
.nodes{font-family:ui-monospace,monospace;font-weight:400;overflow-wrap:anywhere;min-width:14rem;
max-width:36rem}.many{max-height:6em;overflow:auto}.whole .nodes{max-width:none}
output{margin-left:1rem;opacity:.7}
.told{min-width:22rem}.value{overflow-wrap:anywhere;min-width:9rem;max-width:24rem}
pre{background:#8882;padding:.5rem;white-space:pre-wrap;overflow-wrap:anywhere}
.bar{position:sticky;top:0;background:Canvas;padding:.4rem 0;z-index:1}
input{font:inherit;padding:.3rem;width:100%;max-width:30rem}
.empty::after{content:"\2013"}
:focus-visible{outline:2px solid Highlight}
@media print{.bar{display:none}.map thead th{position:static}
.wide,.map,.many{max-height:none;overflow:visible;content-visibility:visible}
body{max-width:none;font-size:11px}.nodes,.told,.value{min-width:0;max-width:none}.told{width:50%}tr{break-inside:avoid}}
"""
# A row is shown when it contains each word of the filter, or a node set that includes it: node17 is in
# node[1-37], rack2n5 in rack[1-2]n[1,5]. Sets with more than four brackets are not expanded: real names have
# fewer, and matching the expression could take exponential time.
SCRIPT = r"""
const box = document.getElementById('filter'), count = document.getElementById('shown');
const rows = [...document.querySelectorAll('[data-row]')];
const sections = [...document.querySelectorAll('section')]
  .map(section => [section, [...section.querySelectorAll('[data-row]')]]);
const texts = rows.map(row => (row.dataset.row + ' ' + row.textContent).toLowerCase());
const spansOf = text => text.split(',').map(part => {
  const [first, last] = part.split('-');
  return [+first, +(last || first), first.length];
});
const shapeOf = text => {
  const parts = text.split(/\[([^\]]*)\]/);
  if (parts.length < 3 || parts.length > 9) return [];
  const words = parts.map((part, at) => at % 2 ? '(\\d+)' : part.replace(/[.*+?^${}()|\\\/-]/g, '\\$&'));
  return [[new RegExp('^' + words.join('') + '$'), parts.filter((part, at) => at % 2).map(spansOf)]];
};
const sets = rows.map(row => [...row.querySelectorAll('.nodes')]
  .flatMap(cell => cell.textContent.toLowerCase().match(/(?:[^,[\]]|\[[^\]]*\])+/g) || []).flatMap(shapeOf));
const isIn = (word, [shape, spans]) => {
  const found = word.length < 300 && shape.exec(word);
  return found && spans.every((span, at) => {
    const number = found[at + 1];
    return span.some(([first, last, width]) =>
      +number >= first && +number <= last && (number[0] !== '0' || number.length === width));
  });
};
const show = () => {
  const words = box.value.toLowerCase().split(/\s+/);
  rows.forEach((row, at) => {
    row.hidden = !words.every(word => texts[at].includes(word) || sets[at].some(set => isIn(word, set)));
  });
  for (const [section, own] of sections)
    section.classList.toggle('empty', own.length > 0 && own.every(row => row.hidden));
  count.textContent = rows.filter(row => !row.hidden).length + ' / ' + rows.length;
};
box.addEventListener('input', show);
document.addEventListener('keydown', event => {
  if (event.key === '/' && document.activeElement !== box) { event.preventDefault(); box.focus(); }
  if (event.key === 'Escape') { box.value = ''; show(); box.blur(); }
});
show();
"""
