"""What documents show as output is what the program says: a changed word is noticed where it stands."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "transcripts.py"
SHOWN = (
    "docs/report.svg",
    "docs/report.zh.svg",
    "docs/first-check.md",
    "docs/first-check.zh.md",
    "docs/fleet.md",
)

READMES = pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transcripts_tool", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def spoken(tool: ModuleType) -> Any:
    return tool.speeches()


def drifts(tool: ModuleType, spoken: Any, name: str, text: str) -> list[str]:
    return [
        drift.partition(": ")[0]
        for drift in tool.drifts(name, text, spoken["zh" if ".zh." in name else "en"])
    ]


@pytest.mark.parametrize("name", SHOWN)
def test_the_documents_show_what_the_program_says(tool: ModuleType, spoken: Any, name: str) -> None:
    text = tool.shown(ROOT / name)
    assert list(tool.blocks(text))
    assert drifts(tool, spoken, name, text) == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("docs/first-check.md", "do not apply here", "do not matter here"),
        ("docs/first-check.md", "no framework", "no frameworks"),
        ("docs/first-check.md", "UNDETERMINED: no", "UNCLEAR: no"),
        ("docs/first-check.md", "error cache-server.orphan-segment", "error cache-server.dead-segment"),
        ("docs/first-check.md", "a dead cache server left the", "a dead cache server kept the"),
        ("docs/first-check.md", "segment 0 of 4 GiB", "segment 0 with 4 GiB"),
        ("docs/first-check.md", "(-vv shows why)", "(-v shows why)"),
        ("docs/first-check.md", "check --expect none\n2", "check --expected none\n2"),
        ("docs/first-check.md", "next: npudoctor fix", "next: npudoctor mend"),
        ("docs/first-check.md", "ok: host 7", "well: host 7"),
        ("docs/first-check.zh.md", "没有给出结果", "没有结果"),
        ("docs/first-check.zh.md", "已退出的缓存服务器残留共享内存：", "已退出的缓存服务器残留内存："),
        ("docs/fleet.md", "skew:", "differences:"),
        ("docs/fleet.md", "no answer in time", "no answer so far"),
        ("docs/report.svg", "  applied cache", "  mended cache"),
        ("docs/report.svg", "NOT READY: 1", "UNREADY: 1"),
        ("docs/report.svg", "leftovers 1", "leftover files 1"),
        ("docs/report.zh.svg", "  已执行 cache", "  执行了 cache"),
    ],
)
def test_a_changed_word_is_noticed_where_it_stands(
    tool: ModuleType, spoken: Any, name: str, old: str, new: str
) -> None:
    text = tool.shown(ROOT / name)
    inside = next(
        match.start()
        for match in re.finditer(re.escape(old), text)
        if text.count("\n```", 0, match.start()) % 2
    )
    changed = text[:inside] + new + text[inside + len(old) :]
    number = changed.count("\n", 0, inside) + 1
    places = drifts(tool, spoken, name, changed)
    # A sentence that is wrapped is named by its first line, of which the changed word may be the next.
    assert places and {f"{name}:{number}", f"{name}:{number - 1}"} & set(places)


@READMES
def test_a_readme_shows_its_picture(readme: str) -> None:
    name = "docs/report.zh.svg" if ".zh." in readme else "docs/report.svg"
    assert f"]({name})" in (ROOT / readme).read_text(encoding="utf-8")


TABLE_ROW = re.compile(r"^\| \[([a-z]+)\]\(docs/[^)]+\) \|.*`([^`]+)` \|$", re.MULTILINE)


@READMES
def test_a_readme_takes_a_minute_and_keeps_its_two_commands(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    assert text.count("\n") <= 110
    assert re.search("^    make run .*\n    make test ", text, re.MULTILINE)


@READMES
def test_a_readme_has_an_example_of_each_of_eight_commands(readme: str) -> None:
    rows = TABLE_ROW.findall((ROOT / readme).read_text(encoding="utf-8"))
    assert [name for name, _example in rows] == (
        ["check", "fix", "env", "run", "explain", "fleet", "snapshot", "rehearse"]
    )
    assert all(f"npudoctor {name}" in example for name, example in rows)


def commands_in(text: str) -> list[list[str]]:
    """The commands of ours in a page, each as words; of a job that is started only that it is."""
    said = re.findall(r"npudoctor [^`#\n|]+", "\n".join(re.findall(r"`[^`\n]+`|^    .+", text, re.MULTILINE)))
    words = [shlex.split(line.partition(')"')[0]) for line in said]
    return [line[:2] if line[1] == "run" else line for line in words]


@READMES
def test_the_commands_of_a_readme_exist(spoken: Any, readme: str) -> None:
    commands = commands_in((ROOT / readme).read_text(encoding="utf-8"))
    assert len(commands) >= 13
    assert [words for words in commands if not spoken["en"].command(words)] == []
    assert not spoken["en"].command(["npudoctor", "fix", "--cache-servers"])


def test_blocks_of_other_things_and_help_are_left_alone(tool: ModuleType) -> None:
    other = "```sh\njq . x\n```\n```console\n$ npudoctor check --help\nUsage\n```\n"
    text = other + "```console\n$ npudoctor check\nx\n```\n"
    assert list(tool.blocks(text)) == [(9, ["$ npudoctor check", "x"])]


def test_a_document_with_drift_ends_with_1(
    tool: ModuleType,
    spoken: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "```console\n$ npudoctor check\nREADY: all is jolly good here\n```\n"
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "speeches", lambda: spoken)  # it takes a second to collect them again
    monkeypatch.setattr(sys, "argv", ["transcripts.py", "--check"])
    assert tool.main() == 1
    assert (
        "README.md:3: npudoctor does not print this: READY: all is jolly good here" in capsys.readouterr().err
    )


def test_a_picture_that_is_drawn_otherwise_ends_with_1(
    tool: ModuleType,
    spoken: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    picture = (ROOT / "docs/report.svg").read_text(encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/report.svg").write_text(picture.replace('rx="8"', 'rx="9"'), encoding="utf-8")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "speeches", lambda: spoken)
    monkeypatch.setattr(sys, "argv", ["transcripts.py", "--check"])
    assert tool.main() == 1
    assert "docs/report.svg: tools/picture.py draws it in another way" in capsys.readouterr().err
