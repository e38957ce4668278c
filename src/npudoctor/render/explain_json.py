"""An explanation as npudoctor.explain/1: within this major version keys are only ever added."""

from __future__ import annotations

from typing import Any, Optional

from npudoctor.core.messages import language
from npudoctor.core.redact.redact import redact
from npudoctor.explain.answer import Explanation, Proof, said, shown
from npudoctor.explain.ranking.candidates import Spot
from npudoctor.explain.ranking.judge import Diagnosis
from npudoctor.explain.ranking.runs import Run

SCHEMA = "npudoctor.explain/1"
UNREAD = 100  # of so many inputs it is said why they were not read


def explain_object(one: Explanation) -> dict[str, Any]:
    """The document as plain data; what the checks say now only where they were asked."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": one.version,
        "seconds": one.seconds,
        "inputs": [{"path": file.path, "bytes": file.bytes, "lines": file.lines} for file in one.inputs],
        "verdict": one.verdict,
        "exit_code": one.exit_code,
        "msg": redact(one.msg),
        "diagnoses": [_diagnosis(diagnosis) for diagnosis in one.diagnoses],
        "complete": one.complete,
        "unread": {
            "count": len(one.unread),
            "first": [{"path": path, "reason": reason} for path, reason in one.unread[:UNREAD]],
        },
        "late": one.late,
    }
    if one.runs:
        document["runs"] = [_run(run) for run in one.runs]
    if one.proofs is not None:
        document["verified"] = [_proof(proof) for proof in one.proofs]
    return document


def _diagnosis(one: Diagnosis) -> dict[str, Any]:
    signature = one.signature
    return {
        "signature": signature.id,
        "category": signature.category,
        "environment": signature.environment,
        "confidence": one.confidence,
        "title": said(signature.title, language()),
        "cause": said(signature.cause, language()),
        "remedy": list(signature.remedy[language()]),
        "checks": list(signature.checks),
        "rank": one.first.seen.rank if one.first else None,
        "first": _first(one.first),
        "count": one.count,
    }


def _first(spot: Optional[Spot]) -> Optional[dict[str, Any]]:
    return None if spot is None else {"path": spot.path, "line": spot.seen.line, "text": shown(spot)}


def _run(one: Run) -> dict[str, Any]:
    """A run before the one that is judged."""
    return {
        "path": one.path,
        "first_line": one.first,
        "last_line": one.last,
        "signature": one.signature.id if one.signature else None,
        "title": said(one.signature.title, language()) if one.signature else None,
        "error": {"line": one.seen.line, "text": redact(one.seen.text)} if one.seen else None,
    }


def _proof(one: Proof) -> dict[str, Any]:
    return {
        "check": one.check,
        "status": one.status,
        "confirms": one.confirms,
        "messages": list(one.messages),
    }
