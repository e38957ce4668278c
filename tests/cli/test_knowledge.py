"""list --knowledge: which tables there are, and from where their rows are."""

from __future__ import annotations

from pathlib import Path

import pytest

from npudoctor.knowledge.site import Knowledge
from npudoctor.render import knowledge

from .command import Npudoctor

ROW = '[[torch_npu.cann]]\ntorch_npu = "2.7.1"\ncann = "7.0.0"\nsource = "ours"\nas_of = "2027-01"\n'


def site(folder: Path, text: str) -> tuple[str, str]:
    """A directory with one trusted file; both paths."""
    made = folder / "knowledge.d"
    made.mkdir(mode=0o755)
    path = made / "site.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return str(made), str(path)


def test_for_machines(npudoctor: Npudoctor, tmp_path: Path) -> None:
    directory, path = site(tmp_path, ROW)
    done = npudoctor("list", "--knowledge", "--format", "json", NPUDOCTOR_KNOWLEDGE_DIR=directory)
    assert (done.status, done.err) == (0, "")
    assert (done.json["schema"], done.json["site"]) == ("npudoctor.knowledge/1", directory)
    rows = {(row["table"], row["origin"]): row for row in done.json["tables"]}
    assert rows[("torch_npu.cann", path)] == {
        "table": "torch_npu.cann",
        "rows": 1,
        "as_of": "2027-01",
        "origin": path,
    }
    assert rows[("torch_npu.cann", "built-in")]["rows"] > 60
    assert done.json["broken"] == []


def test_for_people(npudoctor: Npudoctor, tmp_path: Path) -> None:
    directory, path = site(tmp_path, ROW + "[[torch_npu.cann]]\n")
    done = npudoctor("list", "--knowledge", NPUDOCTOR_KNOWLEDGE_DIR=directory)
    assert done.status == 0
    assert any(line.split() == ["torch_npu.cann", "1", "2027-01", path] for line in done.out.splitlines())
    assert f"not used: {path}: torch_npu.cann: a row lacks torch_npu" in done.out


def test_none_is_wanted(npudoctor: Npudoctor) -> None:
    done = npudoctor("list", "--knowledge", "--format", "json", NPUDOCTOR_KNOWLEDGE_DIR="")
    assert done.json["site"] is None and {row["origin"] for row in done.json["tables"]} == {"built-in"}


def test_the_checks_use_it(npudoctor: Npudoctor, tmp_path: Path) -> None:
    directory, path = site(tmp_path, "what")
    packages = tmp_path / "site"
    (packages / "torch_npu-2.7.1.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.7.1\n"
    (packages / "torch_npu-2.7.1.dist-info" / "METADATA").write_text(metadata)
    done = npudoctor(
        "check", "torch-npu", "--format", "json",
        NPUDOCTOR_KNOWLEDGE_DIR=directory, PYTHONPATH=str(packages),
    )  # fmt: skip
    codes = {finding["code"]: finding for finding in done.row("torch-npu")["findings"]}
    assert path in codes["torch-npu.site-table"]["message"]


def test_a_section_that_is_no_table_of_rows_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = {"kinds": ["a", "b"], "one": "text", "rows": [{"as_of": "2026-01"}], "numbers": [1, {}]}
    monkeypatch.setattr(knowledge, "list_tables", lambda: ["made"])
    monkeypatch.setattr(knowledge, "load_table", lambda name: sections)
    told = knowledge.knowledge_object(Knowledge(""))
    assert [(row["table"], row["rows"]) for row in told["tables"]] == [("made.rows", 1)]
    assert "made.rows" in knowledge.knowledge_text(Knowledge(""))
    monkeypatch.setattr(knowledge, "load_table", lambda name: {"kinds": ["a"]})
    assert knowledge.knowledge_text(Knowledge("")) == ""
