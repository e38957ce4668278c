"""What the checks that compare a release with CANN say of the pair."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.model import Action, Finding, Severity
from npudoctor.knowledge.compatibility import Compatibility, Pair, PairJudgement


def skip_reason_without_cann(name: str) -> str:
    """Why a check that compares a framework with CANN was skipped after all else was compared."""
    return _("CANN is not installed here, so {name} was not compared with it", name=name)


def pair_finding(
    check: str, name: str, release: str, cann: str, judgement: PairJudgement
) -> Optional[Finding]:
    """The finding about a release of a framework beside a CANN; None when they are compatible."""
    code, severity = f"{check}.cann-not-listed", None
    text = _("our table has no row for {name} {release} with CANN {cann}; nearest rows: {rows}")
    if judgement.answer is Compatibility.INCOMPATIBLE:
        code, text = (
            f"{check}.cann-incompatible",
            _("{name} {release} is not compatible with CANN {cann}: {rows}"),
        )
    elif judgement.answer is Compatibility.NEWER:
        code = f"{check}.newer-than-table"
        text = _(
            "{name} {release} is newer than our table of {as_of}, whose last row before it is {rows}: "
            "its compatibility with CANN {cann} is unknown"
        )
        if judgement.newer_cann:
            text = _(
                "CANN {cann} is newer than our table of {as_of}, which ends with {rows}: the compatibility "
                "of {name} {release} is unknown"
            )
    elif judgement.answer is Compatibility.BESIDE:
        severity = Severity.INFO
    elif judgement.answer is not Compatibility.BETWEEN:
        return None
    words = {"name": name, "release": release, "cann": cann, "as_of": judgement.as_of}
    return Finding(
        code,
        text.format(rows=", ".join(dict.fromkeys(map(_row, judgement.rows))), **words),
        severity=severity,
        evidence=tuple(dict.fromkeys(f"{_row(row)}: {row.source}, {row.as_of}" for row in judgement.rows)),
        # What the table does not know yet is nothing to correct.
        action=Action.NONE
        if judgement.answer in (Compatibility.NEWER, Compatibility.BESIDE)
        else Action.CONFIG,
    )


def _row(row: Pair) -> str:
    text = _("{release} with CANN {cann}") if row.compatible else _("{release} not with CANN {cann}")
    return text.format(release=row.release, cann=", ".join(row.cann))
