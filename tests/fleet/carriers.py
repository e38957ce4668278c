"""Reports as real carriers bring them: real ones of the tool itself, renamed and mangled."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.render import samples

from npudoctor.render.json_text import json_text
from npudoctor.render.report_json import report_object


def report(name: str, **changes: Any) -> dict[str, Any]:
    """A report in which every kind of row occurs, of this node."""
    found: dict[str, Any] = copy.deepcopy(json.loads(json_text(report_object(samples.report()))))
    found["host"]["name"] = name
    found.update(changes)
    return found


def ready(name: str, **facts: Any) -> dict[str, Any]:
    """One of a node that is ready; `facts` by check."""
    found = report(name, verdict="ready", exit_code=0, failed=False, msg="ready")
    found["results"] = [
        {**row, "facts": facts.get(row["check"].replace("-", "_"), {})}
        for row in found["results"]
        if row["status"] in ("ok", "skipped")
    ]
    for check, values in facts.items():
        found["results"].append(
            {"check": check.replace("_", "-"), "status": "ok", "facts": values, "findings": []}
        )
    return found


def prefixed(name: str, prefix: str, pretty: bool = True) -> list[str]:
    """Its lines, each with a prefix, as srun -l and kubectl logs --prefix write them."""
    text = json_text(report(name)) if pretty else json.dumps(report(name)) + "\n"
    return [prefix + line for line in text.splitlines(keepends=True)]
