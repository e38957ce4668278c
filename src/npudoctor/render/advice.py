"""The group of advice in the text of a report: one line, unless somebody asked for more."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import ADVICE, Result, Status


def advice_line(rows: Sequence[Result]) -> str:
    """What its rows say together; empty where none of them applies here."""
    rows = [row for row in rows if row.group == ADVICE]
    count = sum(finding.ignored is None for row in rows for finding in row.findings)
    if count:
        text = ngettext(
            "tuning: {count} suggestion for more speed: npudoctor check tuning",
            "tuning: {count} suggestions for more speed: npudoctor check tuning",
            count,
        )
        return text.format(count=count)
    return _("tuning: no suggestion") if any(row.status is not Status.SKIPPED for row in rows) else ""
