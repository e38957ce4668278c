"""One row of the text report: its ending, its findings, and the lines that a person would type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Callable

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import Finding, Fix, Report, Result, Risk, Severity, Status
from npudoctor.core.redact.redact import redact, redact_lines, redact_value
from npudoctor.core.sizes import size_text
from npudoctor.render.columns import beside, pad, paragraph, room, shortened, width
from npudoctor.render.printable import printable

COLOURS = {Status.OK: "32", Status.PROBLEM: "31", Status.SKIPPED: "2"}
OPEN = "33"  # neither good nor bad: nobody could tell
_IN_BYTES = ("bytes", "free", "available", "limit", "left")  # the last word of a key
INDENT, DEEPER = " " * 4, " " * 6


def status_words() -> dict[Status, str]:
    """How each ending is called."""
    return {
        Status.OK: _("ok"),
        Status.PROBLEM: _("problem"),
        Status.SKIPPED: _("skipped"),
        Status.UNKNOWN: _("unknown"),
        Status.TIMEOUT: _("timeout"),
        Status.CRASHED: _("crashed"),
        Status.BROKEN: _("not loaded"),
    }


def severity_words() -> dict[Severity, str]:
    """How each severity is called."""
    return {Severity.ERROR: _("error"), Severity.WARNING: _("warning"), Severity.INFO: _("info")}


class Rows:
    """Prints the rows of one report; every echo goes under its cause.

    `subjects`: what each check looks at, by its id. `whole`: that, and what was seen, is not cut.
    """

    def __init__(
        self,
        report: Report,
        verbose: bool,
        paint: Callable[[str, str], str],
        subjects: Mapping[str, str],
        *,
        whole: bool,
    ) -> None:
        self._verbose, self._paint, self._subjects, self._whole = verbose, paint, subjects, whole
        self._words, self._severities = status_words(), severity_words()
        self._column = max(map(width, self._words.values()))
        self._names = max((width(printable(row.check)) for row in report.results), default=0)
        self._echoes: dict[str, list[Finding]] = {}
        for row in report.results:
            for finding in row.findings:
                if finding.caused_by is not None and finding.ignored is None:
                    self._echoes.setdefault(finding.caused_by, []).append(finding)

    def lines(self, row: Result) -> Iterator[str]:
        """The row's line, then its reason and findings."""
        word = pad(self._words[row.status], self._column)
        title = row.title if row.status is Status.OK or self._verbose else ""
        took = f" ({row.seconds:.1f} s)" if self._verbose and row.seconds >= 0.05 else ""
        before = f"  {word}  {pad(printable(row.check), self._names)}  "
        first, *rest = paragraph(f"{title}{took}", before, " " * width(before))
        yield first.replace(word, self._paint(word, _colour(row)), 1).rstrip()
        yield from rest
        yield from self._seen(row)
        if row.reason:
            yield from paragraph(row.reason, INDENT, INDENT)
        if row.status in (Status.UNKNOWN, Status.TIMEOUT, Status.CRASHED) and not row.needed:
            yield INDENT + _("not needed for the verdict")
        for finding in row.findings:
            yield from self._finding(finding)

    def _seen(self, row: Result) -> Iterator[str]:
        """What the check looked at and what it saw, a line each, or the whole of it."""
        facts = _("saw: {facts}", facts=facts_text(redact_value(dict(row.facts)))) if row.facts else ""
        for text in (self._subjects.get(row.check, ""), facts):
            if text and self._whole:
                yield from paragraph(text, INDENT, DEEPER)
            elif text:
                yield shortened(f"{INDENT}{printable(text)}")

    def _finding(self, finding: Finding) -> Iterator[str]:
        severity = self._severities[finding.weight]
        if finding.ignored is not None:
            why = redact(finding.ignored.reason or _("no reason given"))
            text = _("ignored ({reason}): {message}", reason=why, message=finding.message)
            yield from paragraph(f"{finding.code} {text}", INDENT, DEEPER)
        elif finding.caused_by is not None:
            text = _("{code}: an echo of {cause}", code=finding.code, cause=finding.caused_by)
            yield from paragraph(text, INDENT, DEEPER)
        else:
            yield INDENT + f"{severity} {printable(finding.code)}"
            yield from paragraph(finding.message, DEEPER, DEEPER)
            yield from self._details(finding)

    def _details(self, finding: Finding) -> Iterator[str]:
        if finding.weight > Severity.INFO or self._verbose:
            yield from (f"{DEEPER}- {printable(line)}" for line in finding.evidence)
        for echo in self._echoes.pop(finding.code, []):
            text = _("echo {code}: {message}", code=echo.code, message=echo.message)
            yield DEEPER + printable(text)
        if finding.fix is not None:
            yield from fix_lines(finding.fix, DEEPER)


def facts_text(facts: Any) -> str:
    """What a check saw, a mapping, its keys as they are in JSON: `bytes 23.5 GiB; models Ascend910B3`."""
    return "; ".join(f"{key} {_value(key, value)}" for key, value in facts.items())


def _value(key: str, value: object) -> str:
    if isinstance(value, Mapping):
        return f"({facts_text(value)})" if value else _("none")
    if isinstance(value, (list, tuple)):
        return ", ".join(_value(key, item) for item in value) or _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, int) and key.rpartition("_")[2] in _IN_BYTES:
        return size_text(value)
    return _("none") if value in (None, "") else str(value)


def _colour(row: Result) -> str:
    """Red is for what decides; a row with nothing worse than a warning is yellow."""
    if row.status is Status.PROBLEM and not any(
        finding.counts and finding.weight is Severity.ERROR for finding in row.findings
    ):
        return OPEN
    return COLOURS.get(row.status, OPEN)


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
