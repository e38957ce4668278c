"""Whatever a text holds, parsing it ends soon, in a value or in one line; and there is one door."""

from __future__ import annotations

import ast
import json
import random
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from npudoctor.core import parsing

ROOT = Path(__file__).resolve().parents[2]


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parsing.json_of, "[" * 100_000 + "]" * 100_000),
        (parsing.json_of, "[" * 500 + "]" * 500),
        (parsing.json_of, '{"a":' * 300 + "1" + "}" * 300),
        (parsing.json_of, '["]",' * 300 + "1" + "]" * 300),
        (parsing.json_of, r'["\\\"]",' * 300 + "1" + "]" * 300),
        (parsing.toml_of, "a = " + "[" * 50_000 + "]" * 50_000),
        (parsing.toml_of, "a = " + "[" * 200 + "]" * 200),
        (parsing.toml_of, "a" + ".a" * 300_000 + " = 1"),
        (parsing.toml_of, "x = {a" + ".a" * 300_000 + " = 1}"),
        (parsing.toml_of, "[a" + ".a" * 300_000 + "]"),
    ],
)
def test_what_is_deep_is_refused_at_once(parse: Callable[[str], Any], text: str) -> None:
    begin = time.monotonic()
    with pytest.raises(ValueError, match="nested too deeply"):
        parse(text)
    assert time.monotonic() - begin < 5


def test_the_limit_is_one_of_depth_and_not_of_brackets_in_texts() -> None:
    wide = [{"[" * 200: "]" * 200, 'a"\\': "{" * 99} for _number in range(300)]
    assert parsing.json_of(json.dumps(wide)) == wide
    assert parsing.json_of(json.dumps(wide).encode()) == wide
    assert parsing.toml_of('version = "' + "1.2 " * 100 + '"')["version"].count(".") == 100


def test_no_document_within_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(7)  # noqa: S311

    def value(left: int) -> object:
        if not left or dice.random() < 0.2:
            return dice.choice(['a"]', "\\", "[[", '{"', 1, None, '\\"[', "é\n}", ""])
        if dice.random() < 0.5:
            return [value(left - 1) for _part in range(dice.randint(0, 3))]
        return {dice.choice(["k", "[", ']"', "\\"]): value(left - 1) for _part in range(2)}

    for _round in range(500):
        document = [value(7)]
        monkeypatch.setattr(parsing, "DEEPEST", depth(document))
        assert parsing.json_of(json.dumps(document)) == document


def test_size_number_and_digits_are_limited() -> None:
    with pytest.raises(parsing.TooMuch, match="larger than 3 bytes"):
        parsing.json_of("[1, 2]", most=3)
    with pytest.raises(parsing.TooMuch, match="more than 2 objects"):
        parsing.json_of("[{}, {}, {}]", objects=2)
    begin = time.monotonic()
    with pytest.raises(ValueError, match=r"digits|limit"):
        parsing.json_of("1" * 5_000_000)
    assert time.monotonic() - begin < 5


def test_the_json_at_a_place_of_a_text() -> None:
    assert parsing.next_json('{"a": 1} more') == ({"a": 1}, 8)
    assert parsing.next_json('{"a": 1}{}', 8) == ({}, 10)
    with pytest.raises(ValueError, match="nested too deeply"):
        parsing.next_json("[" * 200 + "]" * 200 + " more")


def test_yaml_is_limited_too() -> None:
    pytest.importorskip("yaml")
    assert parsing.yaml_of("all: {hosts: {a: }}") == {"all": {"hosts": {"a": None}}}
    with pytest.raises(ValueError, match="nested too deeply"):
        parsing.yaml_of("[" * 5_000 + "]" * 5_000)
    with pytest.raises(parsing.TooMuch, match="larger"):
        parsing.yaml_of("a" * (parsing.YAML_LARGEST + 1))


# Who parses elsewhere, and why.
ALLOWED = {
    "src/npudoctor/core/parsing.py": "the door",
    "src/npudoctor/checking/index.py": "a file of the package itself",
    "src/npudoctor/cli/arguments/table.py": "a file of the package itself",
    "src/npudoctor/explain/signatures/prepared.py": "a file of the package itself",
    "src/npudoctor/host/fs/blocking.py": "one line of our own child, whose length is limited",
    "src/npudoctor/host/network/names.py": "lines of our own child",
    "src/npudoctor/cli/fleet/delivery.py": "our own file without a name, written a moment ago",
    "src/npudoctor/explain/reading/sources.py": "gzip in pieces, with a size and a deadline",
}
ELSEWHERE = (
    "src/npudoctor/probes/",
    "src/npudoctor/rehearsal/",
    "src/npudoctor/trial/parts/",
)  # the job's interpreter; machines of their own
MODULES = {
    "tomllib",
    "tomli",
    "gzip",
    "bz2",
    "lzma",
    "zipfile",
    "zlib",
    "yaml",
    "pickle",
    "marshal",
    "plistlib",
}
JSON = {"load", "loads", "JSONDecoder"}


def parses(node: ast.AST) -> bool:
    """Whether a piece of code reads one of the formats by itself."""
    if isinstance(node, ast.Import):
        return any(name.name.partition(".")[0] in MODULES for name in node.names)
    if isinstance(node, ast.ImportFrom):
        of_json = node.module == "json" and any(name.name in JSON for name in node.names)
        return of_json or (node.module or "").partition(".")[0] in MODULES
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    called = (node.value.id, node.attr)
    return called in {("csv", "reader"), ("csv", "DictReader")} or (called[0] == "json" and called[1] in JSON)


def test_there_is_one_door() -> None:
    readers = set()
    for folder in ("src/npudoctor", "checks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            text = path.read_text(encoding="utf-8")
            if name.startswith(ELSEWHERE) or not any(word in text for word in (*MODULES, "csv", "json")):
                continue
            if any(parses(node) for node in ast.walk(ast.parse(text))):
                readers.add(name)
    assert readers == set(ALLOWED) | {"src/npudoctor/core/forked.py"}  # pickle: our own child's


@pytest.mark.parametrize(
    "code", ["json.loads(x)", "import tomllib", "from json import load", "import gzip", "csv.reader(x)"]
)
def test_the_guard_sees_a_second_door(code: str) -> None:
    assert any(parses(node) for node in ast.walk(ast.parse(code)))
