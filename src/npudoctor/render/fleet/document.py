"""Renders merged reports as npudoctor.fleet/1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npudoctor import __version__
from npudoctor.fleet.merge import SILENT, STATES, Fleet
from npudoctor.fleet.nodes import fold_nodes
from npudoctor.fleet.skew import Deviation
from npudoctor.render.fleet.text import fleet_line

SCHEMA = "npudoctor.fleet/1"


def fleet_object(
    fleet: Fleet, started: str, seconds: float, reports: Iterable[object] = (), engine: str = "report"
) -> dict[str, Any]:
    """The npudoctor.fleet/1 document as plain data. `reports`: the redacted reports of the nodes.

    `engine`: ssh or slurm, or "report" for reports that were read from files.
    """
    errors: list[dict[str, Any]] = [
        {"node": failure.node, "source": failure.source, "error": failure.error} for failure in fleet.failures
    ]
    unread = {failure.node for failure in fleet.failures}
    errors += [
        {"node": node.name, "source": node.source, "error": node.error}
        for node in fleet.nodes
        if node.error is not None and node.name not in unread
    ]
    silent = frozenset(fleet.names(SILENT))
    for error in errors:
        error["unreachable"] = error["node"] in silent
    return {
        "schema": SCHEMA,
        "version": __version__,
        "started": started,
        "seconds": round(seconds, 3),
        "engine": engine,
        "verdict": fleet.verdict,
        "exit_code": fleet.exit_code,
        "changed": False,
        "failed": fleet.exit_code != 0,
        "msg": fleet_line(fleet),
        "counts": {
            "nodes": len(fleet.nodes),
            **{state: len(fleet.names(state)) for state in STATES},
            "findings": len(fleet.findings),
            "skew": len(fleet.skew),
            "unreadable": len(fleet.failures),
            "superseded": sum(fleet.superseded.values()),
        },
        "nodes": {state: fold_nodes(fleet.names(state)) for state in STATES},
        "findings": [
            {
                "code": finding.code,
                "severity": finding.severity,
                "message": finding.message,
                "messages": finding.variants,
                "nodes": fold_nodes(finding.nodes),
                "action": finding.action,
                "fix": finding.fix,
                "fixes": finding.fixes,
                "first": finding.nodes[0],
            }
            for finding in fleet.findings
        ],
        "skew": [
            {
                "fact": skew.fact,
                "majority": _deviation_object(skew.majority),
                "others": [_deviation_object(other) for other in skew.deviations],
            }
            for skew in fleet.skew
        ],
        "uncompared": [
            {"nodes": fold_nodes(gap.nodes), "facts": list(gap.facts)} for gap in fleet.uncompared
        ],
        "reports": [*reports, *errors],
    }


def _deviation_object(deviation: Deviation) -> dict[str, Any]:
    return {"value": deviation.value, "nodes": fold_nodes(deviation.nodes)}
