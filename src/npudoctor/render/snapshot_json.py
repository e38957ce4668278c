"""Renders a snapshot as npudoctor.snapshot/1 (keys are added, never changed)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor.core.messages import _
from npudoctor.core.model import UNANSWERED
from npudoctor.core.redact.bundle import BundleRedactor
from npudoctor.facts.snapshot.document import CHECK, SNAPSHOT
from npudoctor.render.json_text import json_text
from npudoctor.render.report_json import report_object
from npudoctor.runner.snapshot import TakenSnapshot


def snapshot_text(snapshot: TakenSnapshot, redactor: BundleRedactor) -> str:
    """The document as text, without values of variables whose names tell that they are secret."""
    return redactor.hide_own_values(json_text(snapshot_object(snapshot)))


def snapshot_object(snapshot: TakenSnapshot) -> dict[str, Any]:
    """The npudoctor.snapshot/1 document as plain data."""
    report = report_object(snapshot.report)
    unread = list(_unread_rows(snapshot))
    facts = {
        name: {
            fact.name: (list(fact.value) if isinstance(fact.value, tuple) else fact.value)
            for fact in section.facts
            if not fact.unread
        }
        for name, section in snapshot.sections.items()
    }
    return {
        "schema": SNAPSHOT,
        **{key: report[key] for key in ("version", "started", "seconds", "host", "target", "verdict")},
        "changed": False,
        "failed": False,
        "msg": _(
            "{facts} facts, {unread} could not be read",
            facts=sum(map(len, facts.values())),
            unread=len(unread),
        ),
        "facts": facts,
        "checks": {row["check"]: row["facts"] for row in report["results"] if row["facts"]},
        "findings": [
            {
                "check": row["check"],
                "code": finding["code"],
                "severity": finding["severity"],
                "message": finding["message"],
            }
            for row in report["results"]
            for finding in row["findings"]
        ],
        "unread": unread,
    }


def _unread_rows(snapshot: TakenSnapshot) -> Iterator[dict[str, Any]]:
    """Yield the facts, sections and checks that could not be read, each with the reason."""
    for name, section in snapshot.sections.items():
        for fact in section.facts:
            if fact.unread:
                yield _row(name, fact.name, fact.unread, fact.advisory)
        if section.failed:
            yield {**_row(name, None, section.failed, section.advisory), "crashed": section.crashed}
    for row in snapshot.report.results:
        if row.status in UNANSWERED:
            yield _row(CHECK + row.check, None, row.reason or row.status.value, not row.needed)


def _row(section: str, fact: object, reason: str, advisory: bool) -> dict[str, Any]:
    return {"section": section, "fact": fact, "reason": reason, "advisory": advisory}
