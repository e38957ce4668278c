"""Renders an explanation as npudoctor.explain/1 (keys are added, never changed)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npudoctor.core.messages import language
from npudoctor.core.redact.redact import redact
from npudoctor.explain.answer import Explanation, Proof, pick_language, redacted_text

if TYPE_CHECKING:
    from npudoctor.explain.ranking.diagnosis import Diagnosis
    from npudoctor.explain.ranking.runs import EarlierRun

SCHEMA = "npudoctor.explain/1"
UNREAD = 100  # how many unread inputs are listed with the reason


def explain_object(explanation: Explanation) -> dict[str, Any]:
    """The npudoctor.explain/1 document as plain data; `verified` only when checks were run."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": explanation.version,
        "seconds": explanation.seconds,
        "inputs": [
            {"path": file.path, "bytes": file.bytes, "lines": file.lines} for file in explanation.inputs
        ],
        "verdict": explanation.verdict,
        "elsewhere": {"what": explanation.elsewhere.cause, "where": explanation.elsewhere.place}
        if explanation.elsewhere
        else None,
        "exit_code": explanation.exit_code,
        "msg": redact(explanation.msg),
        "diagnoses": [_diagnosis_object(diagnosis) for diagnosis in explanation.diagnoses],
        "complete": explanation.is_complete,
        "unread": {
            "count": len(explanation.unread),
            "first": [{"path": path, "reason": reason} for path, reason in explanation.unread[:UNREAD]],
        },
        "late": explanation.late,
    }
    if explanation.runs:
        document["runs"] = [_run_object(run) for run in explanation.runs]
    if explanation.code is not None:
        document["code"] = explanation.code
    if explanation.answers:
        document["answers"] = [explain_object(answer) for answer in explanation.answers]
    if explanation.proofs is not None:
        document["verified"] = [_proof_object(proof) for proof in explanation.proofs]
    return document


def _diagnosis_object(diagnosis: Diagnosis) -> dict[str, Any]:
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


def _run_object(run: EarlierRun) -> dict[str, Any]:
    """An earlier run in the same file."""
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


def _proof_object(proof: Proof) -> dict[str, Any]:
    return {
        "check": proof.check,
        "status": proof.status,
        "confirms": proof.confirms,
        "outcome": proof.outcome,
        "messages": list(proof.messages),
    }
