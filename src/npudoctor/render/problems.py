"""What is wrong, errors first: the value that was seen, and the line to type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import Finding, Fix, Report, Risk, Severity
from npudoctor.core.redact.redact import redact, redact_lines
from npudoctor.render.columns import beside, paragraph, room, width
from npudoctor.render.printable import printable
from npudoctor.render.style import BOLD, Style, kind_of, sign_paragraph

INDENT = " " * 4
_ALIKE = 3  # findings of one code that are shown: eight devices often have the same


def echoes_of(report: Report) -> dict[str, list[str]]:
    """The codes that each counting finding explains, those that its echoes explain in turn included."""
    findings = [finding for row in report.results for finding in row.findings if finding.ignored is None]
    causes = {finding.code: finding.caused_by for finding in findings if finding.caused_by is not None}
    counting = {finding.code for finding in findings if finding.counts}
    echoes: dict[str, list[str]] = {}
    for finding in findings:
        cause, seen = finding.caused_by, {finding.code}
        while cause in causes and cause not in counting and cause not in seen:
            seen.add(cause)
            cause = causes[cause]
        if cause is not None:
            echoes.setdefault(cause, []).append(finding.code)
    return echoes


class Problems:
    """The findings of one report that count.

    `commands`: how many lines of a remedy are shown, and `prose`: of one that is only text; 0 for all.
    `evidence`: show it, and every finding.
    """

    def __init__(
        self, report: Report, style: Style, *, commands: int = 0, prose: int = 0, evidence: bool = False
    ) -> None:
        self._style, self._commands, self._prose, self._evidence = style, commands, prose, evidence
        self._findings = [finding for row in report.results for finding in row.findings if finding.counts]
        self._echoes = echoes_of(report)

    def lines(self, least: Severity) -> Iterator[str]:
        """Those that weigh as much; of many of one code the first few, and how many more there are."""
        shown: Counter[tuple[str, Severity]] = Counter()
        findings = [finding for finding in self._findings if finding.weight >= least]
        for finding in sorted(findings, key=lambda finding: -finding.weight):
            kind = (finding.code, finding.weight)
            shown[kind] += 1
            if shown[kind] <= _ALIKE or self._evidence:
                yield from self._finding(finding)
        for (code, severity), count in shown.items():
            if count > _ALIKE and not self._evidence:
                text = ngettext(
                    "and {count} more {code} (-v shows it)",
                    "and {count} more {code} (-v shows them)",
                    count - _ALIKE,
                    count=count - _ALIKE,
                    code=code,
                )
                yield from sign_paragraph(kind_of(severity), text, self._style)

    def _finding(self, finding: Finding) -> Iterator[str]:
        text = _("{code}: {message}", code=finding.code, message=finding.message)
        first, *rest = sign_paragraph(kind_of(finding.weight), text, self._style)
        yield first.replace(finding.code, self._style.paint(finding.code, BOLD), 1)
        yield from rest
        if self._evidence:
            yield from (f"{INDENT}- {printable(line)}" for line in finding.evidence)
        echoes = self._echoes.pop(finding.code, ())
        if echoes:
            text = _("this also causes {codes}", codes=_(", ").join(dict.fromkeys(echoes)))
            yield from paragraph(text, INDENT, INDENT)
        if finding.fix is not None:
            yield from fix_lines(finding.fix, INDENT, self._commands, self._prose)


def fix_lines(fix: Fix, indent: str, most: int = 0, prose: int = 0) -> Iterator[str]:
    """The remedy's title with its conditions, and its lines exactly as they are typed: never broken.

    Without lines the title says it all: nothing is announced, and there are no conditions of typing it.
    `most`: only so many lines, and how many are left, a single one beside its title; 0 for all.
    `prose`: the same for a title without lines.
    """
    if fix.container and not fix.commands:
        # Words of `docker run` are copied, so they are never broken.
        yield from paragraph(_("ask whoever starts the container to add:"), indent, indent)
        yield f"{indent}  {printable(redact(' '.join(fix.container)))}"
        return
    if not fix.commands:
        lines = paragraph(redact(fix.title), indent, indent)
        yield from lines[: prose or None]
        if prose and len(lines) > prose:
            yield indent + _("... (-v shows all of it)")
        return
    title = _("{title} ({notes}):", title=redact(fix.title), notes=fix_notes(fix))
    commands = [printable(command) for command in redact_lines(fix.commands)]
    line = indent + beside(printable(title), commands[0])
    if most and len(commands) == 1 and width(line) <= room():
        yield line
        return
    yield from paragraph(title, indent, indent)
    shown = commands if not most or len(commands) <= most else commands[: most - 1]
    yield from (f"{indent}  {command}" for command in shown)
    left = len(commands) - len(shown)
    if left:
        text = ngettext("and {count} more line (-v shows it)", "and {count} more lines (-v shows them)", left)
        if not shown:
            text = ngettext("{count} line (-v shows it)", "{count} lines (-v shows them)", left)
        yield f"{indent}  # " + text.format(count=left)


def fix_notes(fix: Fix) -> str:
    """Under which conditions its lines are typed."""
    notes = {
        Risk.SAFE: _("safe"),
        Risk.CAUTION: _("with care"),
        Risk.MANUAL: _("by hand"),
    }[fix.risk]
    if fix.needs_root:
        notes = _("{risk}, as root", risk=notes)
    return _("{risk}, not proven", risk=notes) if fix.unproven else notes
