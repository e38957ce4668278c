"""English or Chinese: as the caller's variables say for people, only by --lang for machines."""

from __future__ import annotations

import re
from typing import Optional

import pytest

from .command import Npudoctor

CJK = re.compile("[\u4e00-\u9fff]")
JSON = ("check", "accelerator", "--format", "json")


def spoken(done_out: str) -> str:
    return "zh" if CJK.search(done_out) else "en"


# Variables and options, by the language that they choose.
CHOICES: dict[str, list[tuple[dict[str, Optional[str]], tuple[str, ...]]]] = {
    "en": [
        ({}, ()),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, ()),
        ({"NPUDOCTOR_LANG": "zh"}, ("--lang", "en")),
        ({"LANG": "de_DE.UTF-8"}, ()),
    ],
    "zh": [
        ({"LANG": "zh_CN.UTF-8"}, ()),
        ({"NPUDOCTOR_LANG": "zh"}, ()),
        ({"NPUDOCTOR_LANG": "zh", "LANG": "en_US.UTF-8"}, ()),
        ({"LANG": "en_US.UTF-8"}, ("--lang=zh",)),
    ],
}
SPEAKING = (("check", "accelerator"), ("list",), ("check", "nope"), ("check", "--help"))


@pytest.mark.parametrize("language", CHOICES)
def test_text_speaks_the_callers_language(npudoctor: Npudoctor, language: str) -> None:
    tried = [(line, *choice) for choice in CHOICES[language] for line in SPEAKING]
    done = npudoctor.each(
        [(*line, *arguments) for line, _variables, arguments in tried],
        [variables for _line, variables, _arguments in tried],
    )
    wrong = [one for one, ended in zip(tried, done) if spoken(ended.out or ended.err) != language]
    assert wrong == []


@pytest.mark.parametrize(("variables", "language"), [({}, "en"), ({"LANG": "zh_CN.UTF-8"}, "zh")])
def test_a_start_of_its_own_speaks_it_too(
    npudoctor: Npudoctor, variables: dict[str, str], language: str
) -> None:
    for line in (("check", "accelerator"), ("check", "--help")):
        assert spoken(npudoctor(*line, **variables).out) == language


def test_a_configured_language_is_for_text(npudoctor: Npudoctor) -> None:
    path = npudoctor.home / ".config/npudoctor/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('lang = "zh"')
    assert spoken(npudoctor("check", "accelerator", LANG="en_US.UTF-8").out) == "zh"
    assert spoken(npudoctor(*JSON).out) == "en"


@pytest.mark.parametrize("variables", [{"LANG": "zh_CN.UTF-8"}, {"NPUDOCTOR_LANG": "zh"}, {"LANGUAGE": "zh"}])
def test_json_is_english_unless_told_otherwise(npudoctor: Npudoctor, variables: dict[str, str]) -> None:
    lines = (JSON, (*JSON, "--lang", "zh"), ("list", "--format", "json"))
    assert [spoken(done.out) for done in npudoctor.each(lines, [variables] * 3)] == ["en", "zh", "en"]


def test_only_the_words_differ(npudoctor: Npudoctor) -> None:
    def shape(value: object) -> object:
        if isinstance(value, dict):
            return {key: shape(part) for key, part in value.items()}
        return [shape(part) for part in value] if isinstance(value, list) else type(value).__name__

    english, chinese = npudoctor(*JSON), npudoctor(*JSON, "--lang", "zh")
    assert english.status == chinese.status and shape(english.json) == shape(chinese.json)


TYPED = ("npudoctor", "sudo npudoctor", "-")  # lines and options, which are no words


def test_all_of_the_help_is_chinese(npudoctor: Npudoctor) -> None:
    commands = ((), ("check",), ("fix",), ("undo",), ("history",), ("list",), ("show",), ("schema",))
    for done in npudoctor.each([("--lang", "zh", *command, "--help") for command in commands]):
        words = [
            line for line in done.out.splitlines() if re.search(r"[a-z] [a-z]", line) and not CJK.search(line)
        ]
        assert [line for line in words if not line.strip().startswith(TYPED)] == [], done.out


def test_a_terminal_that_cannot_show_chinese_gets_escapes(npudoctor: Npudoctor) -> None:
    done = npudoctor("check", "accelerator", "--lang", "zh", PYTHONIOENCODING="ascii")
    assert done.status == 2 and "\\u" in done.out
