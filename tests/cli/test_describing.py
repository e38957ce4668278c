"""list, show and schema: what there is, described."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from .command import Npudoctor

pytestmark = pytest.mark.once


def test_the_list_says_all_about_each_check(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("mine", title="Mine is fine")
    npudoctor.drop_in("broken", top="1 / 0")
    listed = npudoctor("list", "--format", "json").json
    assert listed["schema"] == "npudoctor.list/1"
    checks = {check["id"]: check for check in listed["checks"]}
    assert checks["mine"] == {
        "id": "mine",
        "group": "drop-in",
        "title": "Mine is fine",
        "tags": [],
        "scope": "node",
        "codes": {"mine.bad": "error", "mine.odd": "warning", "mine.note": "info"},
        "advisory": False,
        "profile": "quick",
        "origin": "drop-in",
    }
    assert listed["broken"] == [
        {"id": "broken", "group": "drop-in", "reason": "ZeroDivisionError: division by zero"}
    ]
    assert checks["cache-server"]["codes"]["cache-server.orphan-segment"] == "error"
    assert all(check["title"] and check["codes"] for check in listed["checks"])


def test_the_table_has_a_line_for_each(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("mine")
    npudoctor.drop_in("broken", top="1 / 0")
    listed = npudoctor("list", "--format", "json").json
    done = npudoctor("list")
    assert done.status == 0 and done.out.count("\n") == len(listed["checks"]) + 1
    assert "drop-in    mine " in done.out and "ZeroDivisionError" in done.out


def test_a_manual_is_shown_by_id_and_by_code(npudoctor: Npudoctor) -> None:
    by_id, by_code = npudoctor.each([("show", "cache-server"), ("show", "cache-server.orphan-socket")])
    assert npudoctor("show", "cache-server") == by_id
    assert by_id.out == by_code.out and by_id.status == 0
    assert by_id.out.startswith("cache-server: ")
    for part in (
        "group: leftovers",
        "scope: node",
        "cache-server.orphan-segment   error",
        "\n## Why it matters\n",
    ):
        assert part in by_id.out
    assert "\n    ##" not in by_id.out  # the docstring's indentation is not the reader's


def test_a_manual_and_a_code_are_explained_in_chinese(npudoctor: Npudoctor) -> None:
    manual = npudoctor("show", "cache-server", "--lang", "zh").out
    headings = [line for line in manual.splitlines() if line.startswith("## ")]
    assert headings == ["## 检查内容", "## 为何重要", "## 修复安全性", "## 参考"]
    said = npudoctor("explain", "cache-server.orphan-socket", "--lang", "zh").out
    assert "cache-server.orphan-socket" in said and "killed" not in said


def test_a_code_is_explained_by_what_the_manual_says_of_it(npudoctor: Npudoctor) -> None:
    done = npudoctor("explain", "cache-server.orphan-spill", "--format", "json", "--lang", "en").json
    cause = done["diagnoses"][0]["cause"]
    assert cause.startswith("The socket of a dead server, and the folder of data that it spilled")
    assert "The memory is lost until" in cause
    assert "\n" not in cause


def test_every_listed_check_has_a_manual(npudoctor: Npudoctor) -> None:
    checks = {check["id"]: check for check in npudoctor("list", "--format", "json").json["checks"]}
    for name, done in zip(checks, npudoctor.each([("show", name) for name in checks])):
        assert done.status == 0 and done.out.startswith(f"{name}: ")
        assert all(code in done.out for code in checks[name]["codes"])


def test_a_schema_is_printed(npudoctor: Npudoctor) -> None:
    titles = {(): "report", ("report",): "report", ("fix",): "fix", ("history",): "history"}
    printed = npudoctor.each([("schema", *arguments) for arguments in titles])
    for title, done in zip(titles.values(), printed):
        Draft202012Validator.check_schema(done.json)
        assert done.json["title"] == f"npudoctor.{title}/1"


def test_a_real_report_fits_its_schema(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", 'yield Finding("sick.bad", "bad", fix=Fix("t", (Export("A", "b c"),)))')
    npudoctor.drop_in("broken", top="1 / 0")
    validator = Draft202012Validator(npudoctor("schema").json)
    tried = ((), ("--root", "/"), ("--scope", "job"), ("--ignore", "sick=x"), ("--expect", "gpu"))
    ended = npudoctor.each([("check", "--format", "json", *arguments) for arguments in tried])
    for arguments, done in zip(tried, ended):
        assert list(validator.iter_errors(done.json)) == [], arguments


def test_what_fix_says_fits_its_schema(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", 'yield Finding("sick.bad", "bad", fix=Fix("t", (Command(("rm", "x")),)))')
    validator = Draft202012Validator(npudoctor("schema", "fix").json)
    tried = ((), ("sick",), ("sick", "--dry-run"), ("sick", "--yes"), ("accelerator",))
    ended = npudoctor.each([("fix", *arguments, "--format", "json") for arguments in tried])
    for arguments, done in zip(tried, ended):
        assert list(validator.iter_errors(done.json)) == [], arguments
        assert done.json["exit_code"] == done.status
    assert not validator.is_valid({**done.json, "exit_code": 3})


def test_the_schema_is_strict(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", 'yield Finding("sick.bad", "bad", fix=Fix("t", (Export("A", "b c"),)))')
    validator = Draft202012Validator(npudoctor("schema").json)
    text = npudoctor("check", "sick", "--format", "json").out

    def without_each_key(value: object, report: object) -> None:
        if isinstance(value, dict):
            for key in [key for key in value if value is not row["facts"]]:
                kept = value.pop(key)
                assert not validator.is_valid(report), key
                value[key] = kept
                without_each_key(kept, report)
        elif isinstance(value, list):
            for part in value:
                without_each_key(part, report)

    report = json.loads(text)
    row = report["results"][0]
    assert validator.is_valid(report)
    without_each_key(report, report)
    for change in (
        {"exit_code": 0},
        {"verdict": "ready"},
        {"failed": False},
        {"changed": True},
        {"schema": "x"},
    ):
        assert not validator.is_valid({**report, **change}), change
    assert validator.is_valid({**report, "added": "later"})
