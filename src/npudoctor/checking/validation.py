"""Judges what a check answers before it enters a report: declared, well formed, free of secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from npudoctor.checking.check import Check, CheckOutput
from npudoctor.core.frozen import replace
from npudoctor.core.model import Action, Facts, Finding, Fix, Risk, Severity, Status
from npudoctor.core.redact.redact import redact, redact_lines, redact_value


def validate(check: Check, answer: object) -> CheckOutput:
    """The answer of a check with its declared severity, without secrets.

    TypeError or ValueError for what no report could carry or the check never declared: that is a crash of the
    check, and must not be one of the report.
    """
    if isinstance(answer, Facts):
        values = dict(answer.values)
        # Raises for what JSON cannot carry, NaN included, which other languages do not parse.
        json.dumps(values, allow_nan=False)
        shown = redact_value(values)
        return Facts(shown if isinstance(shown, dict) else values)
    if not isinstance(answer, Finding):
        raise TypeError(f"a check yields findings, not {type(answer).__name__}")
    # Hints are not enough: drop-ins are type-checked by nobody.
    evidence: Any = answer.evidence
    echoes: Any = answer.echo_of
    device = () if answer.device is None else (answer.device,)
    _require_texts(answer.code, (answer.code, answer.message, *device, *evidence, *echoes))
    if not isinstance(answer.action, Action):
        raise TypeError(f"{answer.code}: {answer.action!r} is no action")
    if isinstance(evidence, str) or isinstance(echoes, str):
        raise TypeError(f"{answer.code}: a text where a tuple of texts is wanted")
    declared = check.codes.get(answer.code)
    if declared is None:
        raise ValueError(f"the code {answer.code!r} is not declared")
    severity = declared if answer.severity is None else Severity(answer.severity)
    # A finding may be milder than its code is declared, never worse: people filter by the declaration.
    if severity > declared:
        raise ValueError(f"{answer.code!r} is declared as {declared.name}, not {severity.name}")
    fix: Any = answer.fix
    if fix is not None:
        if not isinstance(fix, Fix) or not isinstance(fix.risk, Risk):
            raise TypeError(f"{fix!r} is no fix")
        # Render the lines once: a fix that cannot be shown is found out here.
        _require_texts(fix.title, (fix.title, *fix.undo_commands, *fix.commands))
    if fix is None and severity is Severity.ERROR:  # what to do is said, also where nothing can be typed
        from npudoctor.checking.by_hand import by_hand

        fix = by_hand(answer.code)
    return replace(
        answer,
        severity=severity,
        message=redact(answer.message),
        evidence=redact_lines(answer.evidence),
        fix=fix,
    )


def row_status(status: Status, answers: Iterable[object]) -> Status:
    """The status of a row with these answers.

    A warning or an error makes it a problem, even where the check then skipped the rest: a skipped row is not
    shown, and what counts must be.
    """
    heavy = any(isinstance(answer, Finding) and answer.weight > Severity.INFO for answer in answers)
    return Status.PROBLEM if heavy and status in (Status.OK, Status.SKIPPED) else status


def _require_texts(where: object, values: Iterable[object]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{where}: {value!r} is no text")
