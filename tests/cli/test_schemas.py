"""The published schemas: an id, a word on every field, a link in docs; the jq of docs/json.md."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Callable

import jsonschema
import pytest

from .command import Npudoctor

pytestmark = pytest.mark.once

DOCS = Path(__file__).parents[2] / "docs"
SCHEMAS = {
    path.name[: -len("-1.json")]: json.loads(path.read_text("utf-8"))
    for path in (files("npudoctor.render") / "schemas").iterdir()
    if path.name.endswith(".json")
}
LINES = re.findall(r"^(jq .*)$", (DOCS / "json.md").read_text(), re.MULTILINE)


def fields(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property that documents can have, however deep; conditions repeat some, and are left out."""
    if not isinstance(node, dict):
        return
    for name, field in node.get("properties", {}).items():
        if isinstance(field, dict):
            yield f"{path}.{name}", field
            yield from fields(field, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        yield from fields(node.get(key), f"{path}[]")
    for name, part in node.get("$defs", {}).items():
        yield from fields(part, f"#{name}")


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_field_is_described(name: str) -> None:
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:npudoctor:schema:{name}:1"
    found = dict(fields(schema))
    assert len(found) > 5
    assert [path for path, field in found.items() if not field.get("description", "").endswith(".")] == []
    null = {path: field["description"] for path, field in found.items() if may_be_null(schema, field)}
    assert [path for path, text in null.items() if "null" not in text] == []
    seconds = {path: field["description"] for path, field in found.items() if path.endswith(".seconds")}
    assert [path for path, text in seconds.items() if "in seconds" not in text] == []


def may_be_null(schema: dict[str, Any], field: dict[str, Any]) -> bool:
    """Whether null is valid for the field itself."""
    if "$ref" in field:
        field = schema["$defs"][field["$ref"].rpartition("/")[2]]
    options = [field, *field.get("anyOf", []), *field.get("oneOf", [])]
    return any("null" in one.get("type", []) or None in one.get("enum", []) for one in options)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_reader_passes_over_what_later_versions_add(name: str) -> None:
    def closed(node: Any) -> bool:
        parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        shut = isinstance(node, dict) and False in (
            node.get("additionalProperties"),
            node.get("unevaluatedProperties"),
        )
        return shut or any(map(closed, parts))

    assert not closed(SCHEMAS[name])


def test_it_is_published_and_printed(npudoctor: Npudoctor) -> None:
    names = sorted(SCHEMAS)
    for name, printed in zip(names, npudoctor.each([("schema", name) for name in names])):
        for page in ("json.md", "json.zh.md"):
            (link,) = re.findall(rf"\(([^)]*/{name}-1\.json)\)", (DOCS / page).read_text("utf-8"))
            assert printed.out == (DOCS / link).read_text("utf-8")


def test_there_is_one_copy_of_each() -> None:
    root = DOCS.parent
    folders = ("docs", "src", "checks", "integrations", "tools", "share", "build_backend", "benchmarks")
    paths = [path for folder in folders for path in (root / folder).rglob("*.json")]
    ids = [
        match
        for path in paths
        for match in re.findall(r'"urn:npudoctor:schema:[^"]*"', path.read_text("utf-8"))
    ]
    assert sorted(ids) == sorted(json.dumps(schema["$id"]) for schema in SCHEMAS.values())


def test_real_documents_are_valid(npudoctor: Npudoctor) -> None:
    (npudoctor.folder / "log").write_text("Traceback (most recent call last):\nModuleNotFoundError: te\n")
    asked = {
        "report": ("check", "--expect", "npu", "--format", "json"),
        "fix": ("fix", "--cache-server", "--dry-run", "--format", "json"),
        "explain": ("explain", "log", "--format", "json"),
        "history": ("history", "--format", "json"),
        "fleet": ("fleet", "report", "report.json", "--format", "json"),
        "snapshot": ("snapshot",),
        "diff": ("diff", "good.json", "good.json", "--format", "json"),
    }
    made = [
        ("check", "clock", "--expect", "none", "--format", "json", "--output", "report.json"),
        ("snapshot", "good.json"),
    ]
    for name, done in zip(asked, npudoctor.each([*made, *asked.values()])[len(made) :]):
        document = done.json
        jsonschema.validate(document, SCHEMAS[name])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, "schema": "npudoctor.other/1"}, SCHEMAS[name])


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, need: Callable[..., None]) -> Path:
    """A folder with a real report: an error, a fix, a check that timed out."""
    need("jq")
    npudoctor = Npudoctor(tmp_path_factory.mktemp("report"))
    words = ("check", "--expect", "npu", "--format", "json", "--output", "report.json")
    assert npudoctor(*words).status == 1
    return npudoctor.folder


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_the_lines_for_jq_run(report: Path, line: str) -> None:
    done = subprocess.run(["sh", "-c", line], cwd=report, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_lines_for_jq_answer(report: Path, tmp_path: Path) -> None:
    assert len(LINES) == 5
    document = json.loads((report / "report.json").read_text())
    document["results"][0].update(status="unknown", reason="nobody knows", needed=True)
    (tmp_path / "report.json").write_text(json.dumps(document))
    verdict, deciding, typed, unjudged, slowest = (
        subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for line in LINES
    )
    assert verdict == f"{document['host']['name']}: not_ready: {document['msg']}\n"
    assert deciding.startswith("accelerator.missing: ") and deciding.count("\n") == 1
    assert unjudged.splitlines()[0] == f"{document['results'][0]['check']}: nobody knows"
    assert slowest.count("\n") == 5
    fixes = [row["fix"] for result in document["results"] for row in result["findings"] if row["fix"]]
    assert all(
        line.startswith("# ") or any(line in fix["commands"] for fix in fixes) for line in typed.splitlines()
    )
