"""The long form of a report (-v, -vv): the rows of every group, with all that is known of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import Report, Status
from npudoctor.render.columns import paragraph
from npudoctor.render.machine import machine_text, python_text
from npudoctor.render.printable import printable
from npudoctor.render.rows import Rows
from npudoctor.render.style import Style


def full_lines(
    report: Report, style: Style, subjects: Mapping[str, str], *, everything: bool
) -> Iterator[str]:
    """Which machine was judged and for which interpreter, the rows by group, how many ended how.

    `everything`: those too that do not apply here, which are most.
    """
    yield from _head(report)
    rows = Rows(report, True, style.paint, subjects, whole=everything)
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
            "{count} check does not apply here (-vv says why)",
            "{count} checks do not apply here (-vv says why)",
            hidden,
            count=hidden,
        )
    yield from _counts(report)


def _head(report: Report) -> Iterator[str]:
    title = f"npudoctor {report.version}"
    yield from paragraph(_("{code}: {message}", code=title, message=machine_text(report)), "", "  ")
    if report.target.python is not None:
        yield from paragraph(python_text(report.target), "", "  ")


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
