"""Whatever a site writes into its rows, no check crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from npudoctor.core.model import Status
from npudoctor.knowledge.tables import list_tables, load_table
from npudoctor.registry.registry import load_all

from .machines import healthy, judge

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})
MACHINES = (("8.1.RC1", "torch"), ("8.0.0", "mindspore"), ("8.5.0", "vllm"), ("8.0.0", "paddle"))
JUNK: tuple[Any, ...] = (
    "",
    "what",
    ">= 1..2",
    "1.2.x",
    "9" * 400,
    "\u4e00",
    [],
    [""],
    ["x", "8.1.RC1"],
    7,
    True,
)


def _rows(junk: object) -> str:
    """Each section's first row, as often as it has keys, each time with one value that makes no sense."""
    made: list[str] = []
    for name in list_tables():
        for section, rows in load_table(name).items():
            for key in rows[0] if isinstance(rows[0], dict) else ():
                row = {**rows[0], key: junk}
                lines = (f"{word} = {json.dumps(value, ensure_ascii=False)}" for word, value in row.items())
                made.append(f"[[{name}.{section}]]\n" + "\n".join(lines) + "\n")
    return "\n".join(made)


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk)[:12])
@pytest.mark.parametrize(("version", "framework"), MACHINES)
def test_senseless_rows_crash_nothing(version: str, framework: str, junk: object) -> None:
    machine = healthy(version, "aarch64", framework)
    machine.rows = _rows(junk)
    report = judge(LOADED, machine)
    bad = (Status.CRASHED, Status.TIMEOUT, Status.BROKEN)
    assert [(row.check, row.reason) for row in report.results if row.status in bad] == []
    codes = [finding.code for row in report.results for finding in row.findings if finding.counts]
    assert sum(code.endswith(".site-table") for code in codes) >= 1, codes
