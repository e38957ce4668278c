"""A report for people: sober, in 80 columns, the verdict last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from npudoctor.core.frozen import replace
from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import ADVICE, Finding, Report, Result, Risk, Severity, Status, Verdict
from npudoctor.render.advice import advice_line
from npudoctor.render.columns import paragraph
from npudoctor.render.printable import printable
from npudoctor.render.rows import Paint, Rows


def report_text(
    report: Report, *, verbose: bool = False, quiet: bool = False, colour: bool = False, notes: bool = False
) -> str:
    """The report as text; `quiet` leaves only its one line.

    `notes`: the reader asked for certain checks, so advice is shown in full too, and not as one line.
    """
    if quiet:
        return printable(report.msg) + "\n"
    paint = Paint(colour)
    lines = [
        *_head(report),
        *_body(report, verbose or notes, verbose, paint),
        *_counts(report),
        *verdict_lines(report, paint),
    ]
    return "\n".join(lines) + "\n"


def _head(report: Report) -> Iterator[str]:
    """Which machine was judged, and for which interpreter."""
    host, target = report.host, report.target
    machine = [host.name, host.distribution, host.machine, _("container") if host.container else None]
    if target.root is not None:
        machine = [_("image {root}").format(root=target.root), host.distribution]
    yield "npudoctor " + report.version + ": " + printable(", ".join(part for part in machine if part))
    if target.python is not None:
        text = _("interpreter: {path} ({version})")
        version = target.python.version or _("version unknown")
        yield printable(text.format(path=target.python.path, version=version))


def _body(report: Report, advice: bool, verbose: bool, paint: Paint) -> Iterator[str]:
    rows = Rows(report, verbose, paint)
    told = [row for row in report.results if advice or row.group != ADVICE]
    shown = [row for row in told if verbose or not _hidden(row)]
    for group, members in groupby(sorted(shown, key=lambda row: row.group), key=lambda row: row.group):
        yield ""
        yield printable(group)
        for row in members:
            yield from rows.lines(row)
    line = "" if advice else advice_line(report.results)
    yield from ["", line] if line else []
    skipped = [row.check for row in told if _hidden(row)]
    if skipped and not verbose:
        yield ""
        text = _("skipped, -v says why: {checks}").format(checks=", ".join(skipped))
        yield from paragraph(text, "", "  ")


def _hidden(row: Result) -> bool:
    """Whether a row is only named: one that was skipped without a finding."""
    return row.status is Status.SKIPPED and not row.findings


def _counts(report: Report) -> Iterator[str]:
    """How many rows ended how; the endings that did not happen are left out."""
    counts = report.counts
    endings = [
        text.format(count=counts[name])
        for name, text in (
            ("ok", _("{count} ok")),
            ("problem", _("{count} with problems")),
            ("skipped", _("{count} skipped")),
            ("unknown", _("{count} unknown")),
            ("timeout", _("{count} timed out")),
            ("crashed", _("{count} crashed")),
            ("broken", _("{count} not loaded")),
        )
        if counts[name]
    ]
    total = len(report.results)
    head = ngettext("{count} check: {endings}", "{count} checks: {endings}", total)
    yield ""
    line = head.format(count=total, endings=_(", ").join(endings)) if endings else _("no checks")
    yield from paragraph(line, "", "  ")


def verdict_lines(report: Report, paint: Paint) -> Iterator[str]:
    """The last line: the answer, what it rests on, and what to do next."""
    word, colour = {
        Verdict.READY: (_("READY"), "32"),
        Verdict.NOT_READY: (_("NOT READY"), "31"),
        Verdict.UNDETERMINED: (_("UNDETERMINED"), "33"),
    }[report.verdict]
    parts = [part for part in (_count_findings(report), _next(report)) if part]
    text = _("{verdict}: {text}").format(verdict=word, text=_("; ").join(parts)) if parts else word
    first, *rest = paragraph(text, "", "  ")
    yield first.replace(word, paint(word, "1;" + colour), 1)
    yield from rest


def _count_findings(report: Report) -> str:
    counts = report.counts
    parts = []
    if counts["errors"]:
        parts.append(
            ngettext("{count} error", "{count} errors", counts["errors"]).format(count=counts["errors"])
        )
    if counts["warnings"]:
        text = ngettext("{count} warning", "{count} warnings", counts["warnings"])
        parts.append(text.format(count=counts["warnings"]))
    if report.verdict is Verdict.UNDETERMINED:
        parts.append(_reason(report.msg))
    return _(", ").join(parts)


def _reason(line: str) -> str:
    """The report's one line without the verdict, which stands before it already."""
    return re.split(": |：", line, maxsplit=1)[-1]


def _next(report: Report) -> str:
    """The command that heals, where npudoctor can; other commands are shown with what they are for."""
    healing = [(row, finding) for row in report.results for finding in row.findings if _can_fix(finding)]
    if not healing:
        return ""
    checks = dict.fromkeys(row.check for row, _finding in healing)
    arguments = ["--cache-server" if check == "cache-server" else check for check in checks]
    command = "npudoctor fix " + " ".join(arguments)
    rooted = report.host.user != "root" and any(f.fix is not None and f.fix.needs_root for _row, f in healing)
    return (_("next, as root: {command}") if rooted else _("next: {command}")).format(command=command)


def _can_fix(finding: Finding) -> bool:
    """Whether `npudoctor fix` could do something: a child can set no variable, and MANUAL is for people."""
    fix = finding.fix
    if fix is None or not finding.counts or fix.risk is Risk.MANUAL or fix.unproven:
        return False
    return any(not line.startswith("export ") for line in fix.commands)


def decisive_text(report: Report) -> str:
    """The rows that make the report not ready, each with its findings, then the verdict."""
    paint = Paint(False)
    # Without an error, warnings decided: they were asked to.
    least = Severity.ERROR if report.counts["errors"] else Severity.WARNING
    rows = Rows(report, False, paint)
    lines = [line for row in _deciding(report, least) for line in rows.lines(row)]
    return "\n".join([*lines, *verdict_lines(report, paint)]) + "\n"


def _deciding(report: Report, least: Severity) -> Iterator[Result]:
    for row in report.results:
        findings = tuple(finding for finding in row.findings if finding.counts and finding.weight >= least)
        if findings:
            yield replace(row, findings=findings)
