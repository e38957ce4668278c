"""Renders the long form of a report (-v, -vv): the rows of every group with all details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import Finding, Report, Result, Severity, Status
from npudoctor.core.redact.redact import redact, redact_value
from npudoctor.core.sizes import size_text
from npudoctor.render.columns import pad, paragraph, shorten, width
from npudoctor.render.machine import machine_text, python_text
from npudoctor.render.printable import printable
from npudoctor.render.problems import fix_lines
from npudoctor.render.style import Style, severity_words, status_words

COLOURS = {Status.OK: "32", Status.PROBLEM: "31", Status.SKIPPED: "2"}
OPEN = "33"  # yellow, for rows without a result
_IN_BYTES = ("bytes", "free", "available", "limit", "left")  # the last word of a key
INDENT, DEEPER = " " * 4, " " * 6


def full_lines(
    report: Report, style: Style, subjects: Mapping[str, str], *, everything: bool
) -> Iterator[str]:
    """Yield the machine and the interpreter, the rows by group, and the counts.

    `everything`: also the checks that do not apply here, which are most.
    """
    title = f"npudoctor {report.version}"
    yield from paragraph(_("{code}: {message}", code=title, message=machine_text(report)), "", "  ")
    if report.target.python is not None:
        yield from paragraph(python_text(report.target), "", "  ")
    rows = RowPrinter(report, style, subjects, whole=everything)
    shown = [row for row in report.results if everything or row.status is not Status.SKIPPED or row.findings]
    for group, members in groupby(sorted(shown, key=lambda row: row.group), key=lambda row: row.group):
        yield ""
        yield printable(group)
        for row in members:
            yield from rows.lines(row)
    yield ""
    hidden = len(report.results) - len(shown)
    if hidden:
        yield ngettext(
            "{count} check does not apply here (-vv shows why)",
            "{count} checks do not apply here (-vv shows why)",
            hidden,
            count=hidden,
        )
    yield from _count_lines(report)


def _count_lines(report: Report) -> Iterator[str]:
    """Yield the number of rows by status, without those that are 0."""
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
    line = (
        ngettext(
            "{count} check: {endings}",
            "{count} checks: {endings}",
            total,
            count=total,
            endings=_(", ").join(endings),
        )
        if endings
        else _("no checks")
    )
    yield from paragraph(line, "", "  ")


class RowPrinter:
    """Prints the rows of one report; every echo is printed under its cause.

    `subjects`: by id, what each check examines. `whole`: whether to show subjects and facts uncut.
    """

    def __init__(
        self,
        report: Report,
        style: Style,
        subjects: Mapping[str, str],
        *,
        whole: bool,
    ) -> None:
        self._style, self._subjects, self._whole = style, subjects, whole
        self._words, self._severities = status_words(), severity_words()
        self._column = max(map(width, self._words.values()))
        self._names = max((width(printable(row.check)) for row in report.results), default=0)
        self._echoes: dict[str, list[Finding]] = {}
        for row in report.results:
            for finding in row.findings:
                if finding.caused_by is not None and finding.ignored is None:
                    self._echoes.setdefault(finding.caused_by, []).append(finding)

    def lines(self, row: Result) -> Iterator[str]:
        """Yield the row's line, then its reason and findings."""
        word = pad(self._words[row.status], self._column)
        took = f" ({row.seconds:.1f} s)" if row.seconds >= 0.05 else ""
        before = f"  {word}  {pad(printable(row.check), self._names)}  "
        first, *rest = paragraph(f"{row.title}{took}", before, " " * width(before))
        # Red is for errors; a row with nothing worse than a warning is yellow.
        errors = any(finding.counts and finding.weight is Severity.ERROR for finding in row.findings)
        colour = COLOURS.get(row.status, OPEN) if row.status is not Status.PROBLEM or errors else OPEN
        yield first.replace(word, self._style.paint(word, colour), 1).rstrip()
        yield from rest
        yield from self._fact_lines(row)
        if row.reason:
            yield from paragraph(row.reason, INDENT, INDENT)
        if row.status in (Status.UNKNOWN, Status.TIMEOUT, Status.CRASHED) and not row.needed:
            yield INDENT + _("not needed for the verdict")
        for finding in row.findings:
            yield from self._finding_lines(finding)

    def _fact_lines(self, row: Result) -> Iterator[str]:
        """Yield what the check examines and its facts, one line each, or uncut."""
        facts = _("saw: {facts}", facts=facts_text(redact_value(dict(row.facts)))) if row.facts else ""
        for text in (self._subjects.get(row.check, ""), facts):
            if text and self._whole:
                yield from paragraph(text, INDENT, DEEPER)
            elif text:
                yield shorten(f"{INDENT}{printable(text)}")

    def _finding_lines(self, finding: Finding) -> Iterator[str]:
        severity = self._severities[finding.weight]
        if finding.ignored is not None:
            why = redact(finding.ignored.reason or _("no reason given"))
            text = _("ignored ({reason}): {message}", reason=why, message=finding.message)
            yield from paragraph(f"{finding.code} {text}", INDENT, DEEPER)
        elif finding.caused_by is not None:
            text = _("{code}: caused by {cause}", code=finding.code, cause=finding.caused_by)
            yield from paragraph(text, INDENT, DEEPER)
        else:
            yield INDENT + f"{severity} {printable(finding.code)}"
            yield from paragraph(finding.message, DEEPER, DEEPER)
            yield from (f"{DEEPER}- {printable(line)}" for line in finding.evidence)
            for echo in self._echoes.pop(finding.code, []):
                text = _("also causes {code}: {message}", code=echo.code, message=echo.message)
                yield DEEPER + printable(text)
            if finding.fix is not None:
                yield from fix_lines(finding.fix, DEEPER)


def facts_text(facts: Any) -> str:
    """The facts of a check as text, with the keys of the JSON report: `bytes 23.5 GiB; models
    Ascend910B3`."""
    return "; ".join(f"{key} {_fact_value_text(key, value)}" for key, value in facts.items())


def _fact_value_text(key: str, value: object) -> str:
    if isinstance(value, Mapping):
        return f"({facts_text(value)})" if value else _("none")
    if isinstance(value, (list, tuple)):
        return ", ".join(_fact_value_text(key, item) for item in value) or _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, int) and key.rpartition("_")[2] in _IN_BYTES:
        return size_text(value)
    return _("none") if value in (None, "") else str(value)
