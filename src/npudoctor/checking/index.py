"""What the built-in checks declare, known without loading their files: most do not apply on most machines.

checks.json is made from the files by tools/index.py. A file that it does not list is loaded at once; one that
declares something else than what stands there is broken.
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib import import_module
from typing import Any

from npudoctor.checking.check import Check, CheckFailure
from npudoctor.core.frozen import replace
from npudoctor.core.model import Compared, Scope, Severity, Status

FILE = os.path.join(os.path.dirname(__file__), "checks.json")
# The index has names in lower case, as the JSON of a report.
SEVERITIES = {severity.name.lower(): severity for severity in Severity}


def load_index() -> dict[tuple[str, str], Check]:
    """Every check of the index by group and id; the file of a check is read when it is asked, or its manual
    is.
    """
    with open(FILE, encoding="utf-8") as file:
        rows: list[dict[str, Any]] = json.load(file)
    return {(row["group"], row["id"]): _indexed_check(row) for row in rows}


def _indexed_check(row: dict[str, Any]) -> Check:
    """The check of one row of the index, which loads its file when needed."""
    loaded = cache(lambda: _load_indexed(row))
    # JSON has lists only.
    compares = ({**fact, "own": tuple(fact.get("own", ()))} for fact in row.get("compares", ()))
    return Check(
        id=row["id"],
        scope=Scope(row["scope"]),
        codes={code: SEVERITIES[name] for code, name in row["codes"].items()},
        ask=lambda host: loaded().ask(host),
        title=row["title"],
        page=lambda: loaded().manual,
        tags=tuple(row.get("tags", ())),
        group=row["group"],
        needs=tuple(row.get("needs", ())),
        advisory=row.get("advisory", False),
        quick=row.get("quick", True),
        always=row.get("always", False),
        compares=tuple(Compared(**fact) for fact in compares),
    )


def index_row(check: Check) -> dict[str, Any]:
    """The row of the index for a check; what has its default value is left out."""
    row: dict[str, Any] = {
        "group": check.group,
        "id": check.id,
        "title": check.title,
        "scope": check.scope.value,
        "codes": {code: severity.name.lower() for code, severity in check.codes.items()},
    }
    # Defaults are left out, so that the file is short and a new field changes no row.
    unusual = {
        "tags": list(check.tags),
        "needs": list(check.needs),
        "advisory": check.advisory,
        "always": check.always,
        "compares": [compared.row() for compared in check.compares],
    }
    row.update({key: value for key, value in unusual.items() if value})
    return row if check.quick else {**row, "quick": False}


def load_check(group: str, id: str) -> Check:
    """The one check of a file, which must have the file's name; whatever is wrong with it raises."""
    module = import_module(f"npudoctor.checks.{group}.{id.replace('-', '_')}")
    # A file may import names of other checks' helpers, but declares one check.
    checks = [value for value in vars(module).values() if isinstance(value, Check)]
    if len(checks) != 1 or checks[0].id != id:
        raise ValueError(f"the file must hold the one check {id!r}")
    return replace(checks[0], group=group)


def _load_indexed(row: dict[str, Any]) -> Check:
    try:
        check = load_check(row["group"], row["id"])
    except Exception as error:
        raise CheckFailure(Status.BROKEN, f"{type(error).__name__}: {error}") from error
    if index_row(check) != row:
        raise CheckFailure(Status.BROKEN, "checks.json is out of date: make docs")
    return check
