"""list, show and schema: what there is, described."""

from __future__ import annotations

import json
import subprocess
import sys

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
    by_id, by_code = npudoctor("show", "cache-server"), npudoctor("show", "cache-server.orphan-socket")
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
    assert cause.startswith("Its socket, and the folder of data") and "The memory is gone until" in cause
    assert "\n" not in cause


# A process for each check, but what they all need is loaded once.
SHOW_EACH = """
import json, os, subprocess, sys, tempfile
from npudoctor.__main__ import main
from npudoctor.cli import main as _main
from npudoctor.cli.app import command_line
from npudoctor.registry.registry import load_all

load_all({"NPUDOCTOR_CHECKS_DIR": ""})
command_line(["show"])
told = {}
for name in sys.argv[1:]:
    with tempfile.TemporaryFile() as out:
        if not (pid := os.fork()):
            os.dup2(out.fileno(), 1)
            sys.argv = ["npudoctor", "show", name]
            os._exit(main())  # without taking apart what all share
        status = os.waitpid(pid, 0)[1]
        out.seek(0)
        told[name] = [status, out.read().decode()]
print(json.dumps(told))
"""


def test_every_listed_check_has_a_manual(npudoctor: Npudoctor) -> None:
    checks = {check["id"]: check for check in npudoctor("list", "--format", "json").json["checks"]}
    done = subprocess.run(
        [sys.executable, "-c", SHOW_EACH, *checks], env=npudoctor.environment({}), cwd=npudoctor.folder,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert list(told) == list(checks)
    for name, (status, out) in told.items():
        assert status == 0 and out.startswith(f"{name}: ")
        assert all(code in out for code in checks[name]["codes"])


@pytest.mark.parametrize(
    ("arguments", "title"),
    [((), "report"), (("report",), "report"), (("fix",), "fix"), (("history",), "history")],
)
def test_a_schema_is_printed(npudoctor: Npudoctor, arguments: tuple[str, ...], title: str) -> None:
    schema = npudoctor("schema", *arguments).json
    Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"npudoctor.{title}/1"


def test_a_real_report_fits_its_schema(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", 'yield Finding("sick.bad", "bad", fix=Fix("t", (Export("A", "b c"),)))')
    npudoctor.drop_in("broken", top="1 / 0")
    validator = Draft202012Validator(npudoctor("schema").json)
    for arguments in ((), ("--root", "/"), ("--scope", "job"), ("--ignore", "sick=x"), ("--expect", "gpu")):
        report = npudoctor("check", "--format", "json", *arguments).json
        assert list(validator.iter_errors(report)) == [], arguments


def test_what_fix_says_fits_its_schema(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("sick", 'yield Finding("sick.bad", "bad", fix=Fix("t", (Command(("rm", "x")),)))')
    validator = Draft202012Validator(npudoctor("schema", "fix").json)
    for arguments in ((), ("sick",), ("sick", "--dry-run"), ("sick", "--yes"), ("accelerator",)):
        done = npudoctor("fix", *arguments, "--format", "json")
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
