"""The list of checks: npudoctor.list/1 for machines, a table for people."""

from __future__ import annotations

from npudoctor.core.messages import _
from npudoctor.registry.collector import LoadedChecks
from npudoctor.render.json_text import json_text
from npudoctor.render.printable import printable

SCHEMA = "npudoctor.list/1"


def listing_json(loaded: LoadedChecks) -> str:
    """The document as text."""
    checks = [
        {
            "id": check.id,
            "group": check.group,
            "title": _(check.title),
            "tags": list(check.tags),
            "scope": check.scope.value,
            "codes": {code: severity.name.lower() for code, severity in check.codes.items()},
            "advisory": check.advisory,
            "profile": "quick" if check.quick or check.always else "full",
            "origin": check.origin,
        }
        for check in loaded.checks
    ]
    broken = [{"id": row.check, "group": row.group, "reason": row.reason} for row in loaded.broken]
    return json_text({"schema": SCHEMA, "checks": checks, "broken": broken})


def listing_text(loaded: LoadedChecks) -> str:
    """Group, id and title of every check; then what could not be loaded."""
    rows = [(check.group, check.id, _(check.title)) for check in loaded.checks]
    rows += [(row.group, row.check, f"{row.title}: {row.reason}") for row in loaded.broken]
    rows = [(printable(group), printable(name), printable(title)) for group, name, title in sorted(rows)]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "".join(f"{group:{widths[0]}}  {name:{widths[1]}}  {title}\n" for group, name, title in rows)
