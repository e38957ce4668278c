"""Why a node is not ready, and nothing else: what decides, with the lines that a person would type."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.core.frozen import replace
from npudoctor.core.model import Report, Result, Severity
from npudoctor.render.rows import Paint, Rows
from npudoctor.render.text import verdict_lines


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
