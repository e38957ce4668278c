"""The answer of `fix` as npudoctor.fix/1: only additions inside a major version."""

from __future__ import annotations

from npudoctor import __version__
from npudoctor.core.redact.redact import redact_value
from npudoctor.fixing.engine import FixReport
from npudoctor.fixing.plan import ItemResult

SCHEMA = "npudoctor.fix/1"


def fix_object(report: FixReport) -> dict[str, object]:
    """The JSON object, every key present."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "exit_code": report.exit_code,
        "changed": report.changed,
        "would_change": report.would_change,
        "failed": report.failed,
        "msg": report.msg,
        "run": report.run,
        "actions": [_action(done) for done in report.actions],
    }


def _action(done: ItemResult) -> dict[str, object]:
    finding = done.item.finding
    shown = {
        "check": done.item.check,
        "code": finding.code,
        "title": finding.fix.title if finding.fix else finding.message,
        "message": finding.message,
        "status": done.outcome.ending.value,
        "reason": done.outcome.reason or None,
        "commands": list(done.item.commands),
        "undo": list(finding.fix.undo_commands) if finding.fix else [],
        "undoable": finding.fix is not None and finding.fix.undoable,
    }
    return {key: redact_value(value) for key, value in shown.items()}
