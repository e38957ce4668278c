"""Turns rows into a verdict: marks ignored findings, folds echoes under their cause, counts, sums up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import replace
from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import UNANSWERED, Finding, Ignored, Result, Severity, Status, Verdict

ANSWERED = (Status.OK, Status.PROBLEM)
EXIT = {Verdict.READY: 0, Verdict.NOT_READY: 1, Verdict.UNDETERMINED: 2}


def mark_ignored(rows: Sequence[Result], ignored: Mapping[str, Optional[str]]) -> list[Result]:
    """Mark the findings that the user ignores by id or code; an ignored check is not needed for the verdict.

    `ignored`: by id or code, the reason, or None when none was given.
    """
    marked = []
    for row in rows:
        findings = []
        for finding in row.findings:
            for name in (finding.code, row.check):
                if name in ignored:
                    finding = replace(finding, ignored=Ignored(ignored[name]))
                    break
            findings.append(finding)
        needed = row.needed and row.check not in ignored
        marked.append(replace(row, findings=tuple(findings), needed=needed))
    return marked


def settle_by_trials(rows: Sequence[Result], tried_by: Mapping[str, Sequence[str]]) -> list[Result]:
    """Mark unknown rows as not needed when all trials that test the same thing have an answer.

    `tried_by`: by id of a check, the ids of those trials.
    """
    answered = {row.check for row in rows if row.status in ANSWERED}
    return [
        replace(row, needed=False)
        if row.status is Status.UNKNOWN
        and tried_by.get(row.check)
        and answered.issuperset(tried_by[row.check])
        else row
        for row in rows
    ]


def fold_echoes(rows: Sequence[Result]) -> list[Result]:
    """Mark every echo with the code of its cause, when the cause is in the report.

    A cause is no echo itself, or is folded in turn. A circle of echoes has no cause, so that all of it
    counts.
    """
    findings = [finding for row in rows for finding in row.findings]
    if not any(finding.echo_of for finding in findings):
        return list(rows)
    codes = {finding.code for finding in findings}
    # Codes that can be a cause: first those that echo nothing in this report, then echoes of these, and so
    # on.
    causes: set[str] = set()
    more = {finding.code for finding in findings if not _find_cause(finding, codes)}
    while more:
        causes |= more
        more = {finding.code for finding in findings if _find_cause(finding, causes)} - causes
    folded = []
    for row in rows:
        pairs = [(finding, _find_cause(finding, causes)) for finding in row.findings]
        marked = (replace(finding, caused_by=cause) if cause else finding for finding, cause in pairs)
        folded.append(replace(row, findings=tuple(marked)))
    return folded


def _find_cause(finding: Finding, codes: set[str]) -> Optional[str]:
    return next((code for code in finding.echo_of if code in codes and code != finding.code), None)


def count_rows(rows: Sequence[Result]) -> dict[str, int]:
    """Count the rows by status; and the findings: ignored, folded, and by severity those that count."""
    counts = {status.value: sum(row.status is status for row in rows) for status in Status}
    findings = [finding for row in rows for finding in row.findings]
    counts["ignored"] = sum(finding.ignored is not None for finding in findings)
    counts["folded"] = sum(finding.caused_by is not None for finding in findings if finding.ignored is None)
    for severity, name in (
        (Severity.ERROR, "errors"),
        (Severity.WARNING, "warnings"),
        (Severity.INFO, "infos"),
    ):
        counts[name] = sum(finding.weight is severity for finding in findings if finding.counts)
    return counts


def decide_verdict(rows: Sequence[Result], fail_on: Severity) -> tuple[Verdict, int]:
    """The verdict and the exit code.

    Not ready: a finding that counts is at least as severe as `fail_on`. Undetermined: a needed row has no
    answer, or no row at all has one. Ready: otherwise.
    """
    bad = any(finding.counts and finding.weight >= fail_on for row in rows for finding in row.findings)
    if bad:
        verdict = Verdict.NOT_READY
    elif any(row.needed and row.status in UNANSWERED for row in rows) or not any(
        row.status in ANSWERED for row in rows
    ):
        verdict = Verdict.UNDETERMINED
    else:
        verdict = Verdict.READY
    return verdict, EXIT[verdict]


def verdict_line(verdict: Verdict, rows: Sequence[Result], fail_on: Severity) -> str:
    """One line with the verdict and the codes or checks that decided it."""
    if verdict is Verdict.READY:
        return _("ready")
    if verdict is Verdict.NOT_READY:
        findings = [finding for row in rows for finding in row.findings]
        codes = [finding.code for finding in findings if finding.counts and finding.weight >= fail_on]
        return (
            ngettext(
                "not ready: {count} problem", "not ready: {count} problems", len(codes), count=len(codes)
            )
            + " ("
            + ", ".join(dict.fromkeys(codes))
            + ")"
        )
    # Name the needed checks without a result. When all needed ones have a result, no row has an answer: then
    # name every check that applies, also one that yielded findings before it failed.
    unanswered = [row for row in rows if row.status in UNANSWERED]
    needed = [row for row in unanswered if row.needed]
    open_checks = [row.check for row in needed or rows if row.status in UNANSWERED or row.findings]
    if not open_checks:
        return _("undetermined: none of the selected checks applies to this machine")
    return _("undetermined: no result from {checks}", checks=", ".join(open_checks))
