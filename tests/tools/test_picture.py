"""The picture of the READMEs: what it shows of a terminal, how it draws that, and that it loads nothing."""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

from npudoctor.render.columns import width

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
SCREEN = """\
npudoctor rehearse: dead-cache-server: a server was killed: its\r
  segment is still there\r
npudoctor rehearse: $ npudoctor check cache-server\r
\r\x1b[K1 s; 1 check left\r\x1b[K2 s; 1 check left\r\x1b[K\x1b[1mnpudoctor 0.1.0\x1b[0m: here\r
\r
\x1b[31m✗\x1b[0m \x1b[1mcode\x1b[0m: 内存 a<b\r
npudoctor rehearse: $ npudoctor fix cache-server --yes\r
the plan:\r
  \x1b[36mplanned\x1b[0m code\r
  \x1b[32mapplied\x1b[0m code\r
npudoctor rehearse: code was found, and npudoctor fix\r
  mended it\r
"""
SHOWN = [
    "$ npudoctor check cache-server",
    "npudoctor 0.1.0: here",
    "",
    "✗ code: 内存 a<b",
    "$ npudoctor fix cache-server --yes",
    "  applied code",
]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("picture_tool", ROOT / "tools" / "picture.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_it_shows_commands_reports_and_what_fix_did(tool: ModuleType) -> None:
    lines = [tool.runs(line) for line in tool.chosen(SCREEN)]
    assert [tool.plain(line) for line in lines] == SHOWN
    assert [run.look for run in lines[3]] == ["r", "", "b", ""]


def test_what_is_drawn_can_be_read_back(tool: ModuleType) -> None:
    lines = [tool.runs(line) for line in tool.chosen(SCREEN)]
    assert [list(line) for line in tool.read(tool.draw(lines))] == [list(line) for line in lines]


def test_every_span_begins_at_its_column(tool: ModuleType) -> None:
    """Chinese takes two columns a character, whatever font the reader has."""
    picture = tool.draw([tool.runs("\x1b[31m错误\x1b[0m code：四个 GiB")])
    drawn = ET.fromstring(picture)  # noqa: S314  (our own picture)
    spans = [(span.text or "", span) for span in drawn.iter(f"{tool.SVG}tspan")]
    assert [text for text, _span in spans] == ["错误", " code", "：四个", " GiB"]
    column = 0
    for text, span in spans:
        assert float(span.get("x", "")) == pytest.approx(tool.MARGIN + column * tool.COLUMN, abs=0.1)
        assert float(span.get("textLength", "")) == pytest.approx(width(text) * tool.COLUMN, abs=0.1)
        column += width(text)


@pytest.mark.parametrize("name", ["docs/report.svg", "docs/report.zh.svg"])
def test_the_picture_is_small_and_loads_nothing(tool: ModuleType, name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert name in tool.PICTURES and len(text.encode()) < 30_000
    assert "prefers-color-scheme:dark" in text
    assert not any(word in text for word in ("<script", "href", "url(", "@import", "@font-face", "<image"))
    assert text.count("http") == 1  # the name of SVG itself
    assert all(width(tool.plain(line)) <= tool.COLUMNS for line in tool.read(text))


@pytest.mark.parametrize("name", ["docs/report.svg", "docs/report.zh.svg"])
def test_the_picture_tells_the_whole_story(tool: ModuleType, name: str) -> None:
    text = "\n".join(map(tool.plain, tool.read((ROOT / name).read_text(encoding="utf-8"))))
    assert text.startswith("$ npudoctor check cache-server\n") and text.count("\n$ npudoctor ") == 2
    assert "cache-server.orphan-segment" in text and "planned" not in text and "\x1b" not in text


@pytest.mark.parametrize("name", ["docs/report.svg", "docs/report.zh.svg"])
def test_the_fix_that_is_typed_is_the_one_that_the_report_advises(tool: ModuleType, name: str) -> None:
    lines = [tool.plain(line) for line in tool.read((ROOT / name).read_text(encoding="utf-8"))]
    (advised,) = [
        line.partition("npudoctor fix ")[2] for line in lines if "1 error" in line or "1 个错误" in line
    ]
    assert advised and f"$ npudoctor fix {advised} --yes" in lines
