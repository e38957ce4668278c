"""Two snapshots compared, as npudoctor.diff/1: within this major version keys are only ever added."""

from __future__ import annotations

from typing import Any

from npudoctor import __version__
from npudoctor.facts.snapshot.compare import Comparison
from npudoctor.facts.snapshot.document import Snapshot
from npudoctor.render.diff_text import one_line

SCHEMA = "npudoctor.diff/1"
_VERDICTS = {0: "alike", 1: "different", 2: "undetermined"}


def diff_object(
    names: tuple[str, str], sides: tuple[Snapshot, Snapshot], comparison: Comparison
) -> dict[str, Any]:
    """The document as plain data."""
    status = comparison.exit_code
    return {
        "schema": SCHEMA,
        "version": __version__,
        "verdict": _VERDICTS[status],
        "exit_code": status,
        "changed": False,
        "failed": status != 0,
        "msg": one_line(comparison),
        "sides": [
            {"file": name, "node": side.node or None, "started": side.started or None,
             "kind": "snapshot" if side.whole else "report"}
            for name, side in zip(names, sides)
        ],
        "counts": {
            "different": len(comparison.differences),
            "alike": comparison.alike,
            "uncompared": len(comparison.uncompared),
            "own": len(comparison.own),
        },
        "differences": [
            {"section": one.section, "fact": one.fact, "kind": one.kind, "values": [one.first, one.second]}
            for one in comparison.differences
        ],
        "uncompared": [
            {"section": one.section, "fact": one.fact or None, "side": one.which, "reason": one.reason,
             "decides": one.decides}
            for one in comparison.uncompared
        ],
        "own": [{"section": section, "fact": fact} for section, fact in comparison.own],
    }  # fmt: skip
