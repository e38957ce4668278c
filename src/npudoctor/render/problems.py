"""Renders the findings of a report, errors first: the message and the commands to type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import Finding, Fix, Report, Risk, Severity
from npudoctor.core.redact.redact import redact, redact_lines
from npudoctor.render.columns import join_head, paragraph, room, width
from npudoctor.render.printable import printable
from npudoctor.render.style import BOLD, Style, kind_of, sign_paragraph

INDENT = " " * 4
_ALIKE = 3  # findings shown per code: eight devices often have the same one


def echoes_by_cause(report: Report) -> dict[str, list[str]]:
    """By code of a finding that counts, the codes that it explains, also through other echoes."""
    findings = [finding for row in report.results for finding in row.findings if finding.ignored is None]
    causes = {finding.code: finding.caused_by for finding in findings if finding.caused_by is not None}
    counting = {finding.code for finding in findings if finding.counts}
    echoes: dict[str, list[str]] = {}
    for finding in findings:
        cause, visited = finding.caused_by, {finding.code}
        while cause in causes and cause not in counting and cause not in visited:
            visited.add(cause)
            cause = causes[cause]
        if cause is not None:
            echoes.setdefault(cause, []).append(finding.code)
    return echoes


class ProblemPrinter:
    """Prints the findings of one report that count.

    `commands`: how many lines of a remedy to show; `prose`: of a remedy that is only text; 0 for all.
    `evidence`: show the evidence, and every finding of a code.
    """

    def __init__(
        self, report: Report, style: Style, *, commands: int = 0, prose: int = 0, evidence: bool = False
    ) -> None:
        self._style, self._commands, self._prose, self._evidence = style, commands, prose, evidence
        self._findings = [finding for row in report.results for finding in row.findings if finding.counts]
        self._echoes = echoes_by_cause(report)

    def lines(self, least: Severity) -> Iterator[str]:
        """Yield the findings of at least a severity; of many with one code the first _ALIKE and a count."""
        shown: Counter[tuple[str, Severity]] = Counter()
        findings = [finding for finding in self._findings if finding.weight >= least]
        for finding in sorted(findings, key=lambda finding: -finding.weight):
            kind = (finding.code, finding.weight)
            shown[kind] += 1
            if shown[kind] <= _ALIKE or self._evidence:
                yield from self._finding_lines(finding)
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

    def _finding_lines(self, finding: Finding) -> Iterator[str]:
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
    """Yield the remedy's title with its conditions, and its commands, which are never broken over lines.

    Without commands only the title is shown, as there is nothing to type.
    `most`: how many lines of commands to show, 0 for all; a single one is put next to the title.
    `prose`: how many lines of a title without commands, 0 for all.
    """
    if fix.container and not fix.commands:
        # Options of `docker run` are copied, so that they are never broken over lines.
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
    line = indent + join_head(printable(title), commands[0])
    if most and len(commands) == 1 and width(line) <= room():
        yield line
        return
    yield from paragraph(title, indent, indent)
    shown = commands if not most or len(commands) <= most else commands[: most - 1]
    yield from (f"{indent}  {command}" for command in shown)
    hidden_count = len(commands) - len(shown)
    if hidden_count:
        text = ngettext(
            "and {count} more line (-v shows it)", "and {count} more lines (-v shows them)", hidden_count
        )
        if not shown:
            text = ngettext("{count} line (-v shows it)", "{count} lines (-v shows them)", hidden_count)
        yield f"{indent}  # " + text.format(count=hidden_count)


def fix_notes(fix: Fix) -> str:
    """The conditions for typing the commands of a fix: its risk, and whether root must."""
    notes = {
        Risk.SAFE: _("safe"),
        Risk.CAUTION: _("with care"),
        Risk.MANUAL: _("by hand"),
    }[fix.risk]
    if fix.needs_root:
        notes = _("{risk}, as root", risk=notes)
    return _("{risk}, not proven", risk=notes) if fix.unproven else notes
