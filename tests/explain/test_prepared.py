"""The table comes ready from the build, and is used only where it is of these sources."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from npudoctor.explain.signatures import prepared as source
from npudoctor.explain.signatures import signatures
from npudoctor.explain.signatures.prepared import prepare_table, write
from npudoctor.explain.signatures.signatures import built_in
from npudoctor.explain.signatures.table import SignatureTable, make_table
from npudoctor.knowledge.site import Knowledge

pytestmark = pytest.mark.once

NONE = Knowledge("")
ROOT = Path(__file__).parents[2]
EXPLAIN = Path(source.EXPLAIN)
# What `prepared` imports, and has nothing to say about what is in the file: it finds, opens and reads logs.
READING = {"beneath.py", "hyperscan_matcher.py", "opening.py", "reading.py", "walk.py"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the build writes."""
    path = tmp_path_factory.mktemp("written") / "table.json"
    write(str(path))
    return path.read_bytes()


@pytest.fixture
def built(tmp_path: Path, written: bytes) -> Path:
    """A file as the build writes it."""
    path = tmp_path / "table.json"
    path.write_bytes(written)
    return path


def table(path: Path) -> SignatureTable:
    return prepare_table(NONE, str(path)).table


def without_gate(one: SignatureTable) -> SignatureTable:
    return replace(one, pieces=(), known_by=tuple(() for _needle in one.needles))


def test_the_file_says_what_is_worked_out(built: Path) -> None:
    worked_out = make_table(replace(one, examples=()) for one in built_in())
    assert table(built).pieces
    assert without_gate(table(built)) == worked_out


def test_what_is_missing_stale_or_damaged_is_worked_out(built: Path) -> None:
    content = json.loads(built.read_text(encoding="utf-8"))
    whole = without_gate(table(built))
    content["entries"] = []
    broken = [
        "",
        "[]",
        "\0" * 100,
        json.dumps({**content, "made_of": content["made_of"] ^ 1}),
        json.dumps({**content, "literals": []}),
        json.dumps({"made_of": content["made_of"]}),
    ]
    for text in broken:
        built.write_text(text, encoding="utf-8")
        found = table(built)
        assert not found.pieces and [one.id for one in found.signatures] == [
            one.id for one in whole.signatures
        ]
    assert not table(built.parent / "nothing.json").pieces


def test_a_changed_signature_makes_the_file_stale(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    for path in Path(signatures.FOLDER).glob("*/*.toml"):
        (folder / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(signatures, "FOLDER", str(tmp_path))
    assert table(built).pieces
    disk = folder / "disk.toml"
    disk.write_text(disk.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert not table(built).pieces


def _imported(path: Path) -> set[Path]:
    """The modules of `explain` that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names} | {node.module or ""}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    ours = [name.split(".")[2:] for name in found if name.startswith("npudoctor.explain.")]
    return {path for path in (EXPLAIN.joinpath(*name).with_suffix(".py") for name in ours) if path.is_file()}


def test_all_that_makes_the_file_is_in_its_digest() -> None:
    reached, todo = set[Path](), {Path(source.__file__)}
    while todo:
        path = todo.pop()
        reached.add(path)
        todo |= {one for one in _imported(path) if one.name not in READING} - reached
    assert {path.relative_to(EXPLAIN).as_posix() for path in reached} == set(source._CODE)


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_the_makefile_has_the_same_names() -> None:
    done = subprocess.run(
        ["make", "-pnq", "help"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SIGNATURES := ")]
    names = {name.partition("/explain/")[2] for name in line.split() if name.endswith(".py")}
    assert names == set(source._CODE)


def test_two_builds_write_the_same_bytes(built: Path, tmp_path: Path) -> None:
    code = "import sys; from npudoctor.explain.signatures.prepared import write; write(sys.argv[1])"
    # One is of this process: with another order of sets than that of the other.
    seed = "77" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    path = tmp_path / "other.json"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=True)
    assert path.read_bytes() == built.read_bytes()


def test_only_a_sites_own_rows_are_worked_out(built: Path, trusted: Path) -> None:
    """What the file says of ours is taken as it stands, even were it wrong: that is how the test can tell."""
    content = json.loads(built.read_text(encoding="utf-8"))
    content["literals"] = [[f"{text} (built)", caseless] for text, caseless in content["literals"]]
    built.write_text(json.dumps(content), encoding="utf-8")
    row = """
[[signature]]
id = "out-of-tune"
category = "other"
environment = true
weight = 90
patterns = ['frobnicator is out of tune']
title = { en = "Out of tune", zh = "跑调" }
cause = { en = "It is old.", zh = "旧了。" }
remedy = { en = ["Tune it."], zh = ["调音。"] }
source = "own work"
as_of = "2026-11-21"
"""
    ours = built_in()[0].id
    folder = trusted / "knowledge.d"
    folder.mkdir(mode=0o755)
    (folder / "own.toml").write_text(row + row.replace("out-of-tune", ours), encoding="utf-8")
    found = prepare_table(Knowledge(str(folder)), str(built))
    assert not found.broken
    ids = [one.id for one in found.table.signatures]
    assert sorted(ids) == sorted({*(one.id for one in built_in()), "out-of-tune"})
    assert found.table.signatures[ids.index(ours)].patterns == ("frobnicator is out of tune",)
    worked_out = [one.text for one in found.table.literals if not one.text.endswith(" (built)")]
    assert worked_out == ["frobnicator is out of tune"]
