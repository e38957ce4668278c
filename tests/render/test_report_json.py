"""npudoctor.report/1 is frozen: a golden file holds what was promised, and only additions may follow."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from npudoctor.cli.config import PROFILES, SCOPES
from npudoctor.core.frozen import replace
from npudoctor.core.model import Action, Compared, Risk, Scope, Severity, Status, Verdict
from npudoctor.render.report_json import report_json, report_object
from npudoctor.runner.verdict import EXIT

from .samples import report

GOLDEN = Path(__file__).with_name("golden") / "report-1.json"
SCHEMA: Any = json.loads(
    (files("npudoctor.render") / "schemas" / "report-1.json").read_text(encoding="utf-8")
)
KEYS = {
    (): (
        "schema version started seconds profile scope host target verdict exit_code changed failed msg counts"
        " results"
    ),
    ("host",): "name boot_id machine system release distribution container user",
    ("target",): "kind model devices python python_from root driver cann frameworks python_of_path",
    ("target", "python"): "path version",
    ("counts",): (
        "ok problem skipped unknown timeout crashed broken ignored folded errors warnings infos"
    ),
    ("results", 0): "check title group tags scope status needed reason seconds facts findings",
    ("results", 0, "findings", 0): "code severity message evidence device action caused_by ignored fix",
    ("results", 0, "findings", 0, "fix"): "title risk needs_root commands undo",
    ("results", 0, "findings", 2, "ignored"): "reason",
}  # fmt: skip


def test_it_says_what_it_said() -> None:
    """When this fails because a key was added, add it to the golden file; never change or drop one."""
    assert json.loads(report_json(report())) == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_the_keys_are_those_of_the_contract() -> None:
    whole = report_object(report())
    for path, keys in KEYS.items():
        part: Any = whole
        for step in path:
            part = part[step]
        assert list(part) == keys.split(), path


def test_what_others_let_fleets_compare_is_in_their_rows() -> None:
    made = report()
    compares = (Compared("nic.speed", "NIC speed", complete=True), Compared("limits", own=("id",)))
    foreign = replace(made.results[0], compares=compares)
    document = report_object(replace(made, results=(foreign, *made.results[1:])))
    first, *others = document["results"]
    assert first["compares"] == [
        {"path": "nic.speed", "name": "NIC speed", "complete": True},
        {"path": "limits", "own": ["id"]},
    ]
    assert [row for row in others if "compares" in row] == []
    Draft202012Validator(SCHEMA).validate(document)


def test_it_fits_its_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert list(Draft202012Validator(SCHEMA).iter_errors(report_object(report()))) == []


def test_the_schema_knows_every_profile_and_scope() -> None:
    assert tuple(SCHEMA["properties"]["profile"]["enum"]) == PROFILES
    assert tuple(SCHEMA["properties"]["scope"]["enum"]) == SCOPES


def test_the_schema_knows_every_word_of_the_model() -> None:
    parts = SCHEMA["$defs"]
    assert parts["result"]["properties"]["status"]["enum"] == [status.value for status in Status]
    assert parts["finding"]["properties"]["action"]["enum"] == [action.value for action in Action]
    assert parts["finding"]["properties"]["severity"]["enum"] == [one.name.lower() for one in Severity]
    assert parts["fix"]["properties"]["risk"]["enum"] == [risk.name.lower() for risk in Risk]
    assert parts["result"]["properties"]["scope"]["enum"] == [scope.value for scope in Scope]
    assert SCHEMA["properties"]["verdict"]["enum"] == [verdict.value for verdict in Verdict]
    assert SCHEMA["properties"]["exit_code"]["enum"] == list(EXIT.values())
