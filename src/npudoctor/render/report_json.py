"""Renders a report as npudoctor.report/1 (keys are added, never changed)."""

from __future__ import annotations

from typing import Any, Optional

from npudoctor.core.model import Finding, Fix, Report, Result, Target
from npudoctor.core.redact.redact import redact, redact_lines, redact_value
from npudoctor.render.json_text import json_text

SCHEMA = "npudoctor.report/1"


def report_json(report: Report) -> str:
    """The npudoctor.report/1 document as text."""
    return json_text(report_object(report))


def report_object(report: Report) -> dict[str, Any]:
    """The npudoctor.report/1 document as plain data."""
    target = report.target
    frameworks = None if target.frameworks is None else dict(target.frameworks)
    fields = {name: getattr(target, name) for name in Target.__annotations__}
    return {
        "schema": SCHEMA,
        "version": report.version,
        "started": report.started,
        "seconds": report.seconds,
        "profile": report.profile,
        "scope": report.scope,
        "host": dict(vars(report.host)),
        "target": {**fields, "python": target.python and vars(target.python), "frameworks": frameworks},
        "verdict": report.verdict.value,
        "exit_code": report.exit_code,
        "changed": False,
        "failed": report.exit_code != 0,
        "msg": report.msg,
        "counts": dict(report.counts),
        "results": [_result_object(row) for row in report.results],
    }


def _result_object(row: Result) -> dict[str, Any]:
    compares = {"compares": [compared.row() for compared in row.compares]} if row.compares else {}
    return {
        "check": row.check,
        "title": row.title,
        "group": row.group,
        "tags": list(row.tags),
        "scope": row.scope.value,
        "status": row.status.value,
        "needed": row.needed,
        "reason": row.reason,
        "seconds": row.seconds,
        "facts": dict(row.facts),
        **compares,
        "findings": [_finding_object(finding) for finding in row.findings],
    }


def _finding_object(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.weight.name.lower(),
        "message": finding.message,
        "evidence": list(finding.evidence),
        "device": finding.device,
        "action": finding.action.value,
        "caused_by": finding.caused_by,
        "ignored": finding.ignored and {"reason": redact_value(finding.ignored.reason)},
        "fix": _fix_object(finding.fix),
    }


def _fix_object(fix: Optional[Fix]) -> Optional[dict[str, Any]]:
    if fix is None:
        return None
    container = {"container": list(redact_lines(fix.container))} if fix.container else {}
    return {
        "title": redact(fix.title),
        "risk": fix.risk.name.lower(),
        "needs_root": fix.needs_root,
        "commands": list(redact_lines(fix.commands)),
        "undo": list(redact_lines(fix.undo_commands)),
        **container,
    }
