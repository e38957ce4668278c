"""The group of advice in the text of a report: one line, unless somebody asked for more."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.core.messages import ngettext
from npudoctor.core.model import ADVICE, Result


def advice_line(rows: Sequence[Result]) -> str:
    """What its rows say together; empty where they say nothing."""
    advised = (finding for row in rows if row.group == ADVICE for finding in row.findings)
    count = sum(finding.counts for finding in advised)
    return (
        ngettext(
            "tuning: {count} suggestion for more speed: npudoctor check tuning",
            "tuning: {count} suggestions for more speed: npudoctor check tuning",
            count,
            count=count,
        )
        if count
        else ""
    )
