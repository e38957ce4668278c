"""An explanation as npudoctor.explain/1: within this major version keys are only ever added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npudoctor.core.messages import language
from npudoctor.core.redact.redact import redact
from npudoctor.explain.answer import Explanation, Proof, pick_language, redacted_text

if TYPE_CHECKING:
    from npudoctor.explain.ranking.diagnosis import Diagnosis
    from npudoctor.explain.ranking.runs import EarlierRun

SCHEMA = "npudoctor.explain/1"
UNREAD = 100  # inputs for which the reason is listed


def explain_object(explanation: Explanation) -> dict[str, Any]:
    """The document as plain data; what the checks say now only where they were asked."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": explanation.version,
        "seconds": explanation.seconds,
        "inputs": [
            {"path": file.path, "bytes": file.bytes, "lines": file.lines} for file in explanation.inputs
        ],
        "verdict": explanation.verdict,
        "exit_code": explanation.exit_code,
        "msg": redact(explanation.msg),
        "diagnoses": [_diagnosis(diagnosis) for diagnosis in explanation.diagnoses],
        "complete": explanation.is_complete,
        "unread": {
            "count": len(explanation.unread),
            "first": [{"path": path, "reason": reason} for path, reason in explanation.unread[:UNREAD]],
        },
        "late": explanation.late,
    }
    if explanation.runs:
        document["runs"] = [_run(run) for run in explanation.runs]
    if explanation.code is not None:
        document["code"] = explanation.code
    if explanation.answers:
        document["answers"] = [explain_object(answer) for answer in explanation.answers]
    if explanation.proofs is not None:
        document["verified"] = [_proof(proof) for proof in explanation.proofs]
    return document


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    signature, spot = diagnosis.signature, diagnosis.first
    return {
        "signature": signature.id,
        "category": signature.category,
        "environment": signature.environment,
        "confidence": diagnosis.confidence,
        "title": pick_language(signature.title, language()),
        "cause": pick_language(signature.cause, language()),
        "remedy": list(signature.remedy[language()]),
        "checks": list(signature.checks),
        "rank": spot.log_line.rank if spot else None,
        "first": {"path": spot.path, "line": spot.log_line.line, "text": redacted_text(spot)}
        if spot
        else None,
        "count": diagnosis.count,
    }


def _run(run: EarlierRun) -> dict[str, Any]:
    """A run before the one that is judged."""
    return {
        "path": run.path,
        "first_line": run.first,
        "last_line": run.last,
        "signature": run.signature.id if run.signature else None,
        "title": pick_language(run.signature.title, language()) if run.signature else None,
        "error": {"line": run.last_error.line, "text": redact(run.last_error.text)}
        if run.last_error
        else None,
    }


def _proof(proof: Proof) -> dict[str, Any]:
    return {
        "check": proof.check,
        "status": proof.status,
        "confirms": proof.confirms,
        "outcome": proof.outcome,
        "messages": list(proof.messages),
    }
