"""The catalogue tool finds every text, keeps translations, and notices what is missing or unsafe."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import polib
import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "messages.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("messages_tool", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def found(tool: ModuleType, source: str) -> set[tuple[str, str]]:
    return set(tool.messages_in(ast.parse(source)))


def catalogue(*entries: tuple[str, str]) -> polib.POFile:
    result = polib.POFile()
    result.extend(polib.POEntry(msgid=msgid, msgstr=msgstr) for msgid, msgstr in entries)
    return result


def test_calls_titles_and_help_are_found(tool: ModuleType) -> None:
    source = '''
_("a " "b {name}").format(name=1)
messages.ngettext("{n} file", "{n} files", n)
_(variable)
Option("--x", help="what x does")

@check("ports", codes={})
def ports(host):
    """The ports are free.

    The manual.
    """

@app.command()
def fix():
    """Heal."""

def helper():
    """Nobody sees this."""
'''
    assert found(tool, source) == {
        ("a b {name}", ""),
        ("{n} file", "{n} files"),
        ("what x does", ""),
        ("The ports are free", ""),
        ("Heal.", ""),
    }


@pytest.mark.parametrize("source", ['_(f"{x} is gone")', '_("{} is gone".format(x))', '_("gone: " + x)'])
def test_a_text_that_is_put_together_first_is_refused(tool: ModuleType, source: str) -> None:
    with pytest.raises(tool.NotConstant):
        found(tool, source)


def test_translations_stay_and_rewordings_are_fuzzy(tool: ModuleType) -> None:
    old = catalogue(("port is free", "端口空闲"), ("the file {path} is missing", "缺少文件 {path}"))
    texts = ("port is free", "the file {path} is not there", "entirely new")
    new = tool.updated(old, {text: tool.Message(text, files={"a.py"}) for text in texts})
    assert [(entry.msgid, entry.msgstr, entry.fuzzy) for entry in new] == [
        ("entirely new", "", False),
        ("port is free", "端口空闲", False),
        ("the file {path} is not there", "缺少文件 {path}", True),
    ]
    assert [problem.split(":")[0] for problem in tool.missing(new)] == ["untranslated", "fuzzy"]
    assert list(tool.problems(new)) == []


def test_an_update_of_an_up_to_date_catalogue_changes_nothing(tool: ModuleType) -> None:
    texts = tool.extract()
    once = tool.updated(catalogue(), texts)
    assert str(tool.updated(once, texts)) == str(once)


@pytest.mark.parametrize("translation", ["缺少文件", "缺少文件 {paths}", "缺少 {path} {path!r}"])
def test_a_translation_with_other_placeholders_is_refused(tool: ModuleType, translation: str) -> None:
    assert list(tool.problems(catalogue(("{path} is missing", translation))))
    assert not list(tool.problems(catalogue(("{path} is missing", "缺少 {path}"))))
