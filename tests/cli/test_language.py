"""English or Chinese: as the caller's variables say for people, only by --lang for machines."""

from __future__ import annotations

import re

import pytest

from .command import Npudoctor

CJK = re.compile("[\u4e00-\u9fff]")
JSON = ("check", "accelerator", "--format", "json")


def spoken(done_out: str) -> str:
    return "zh" if CJK.search(done_out) else "en"


@pytest.mark.parametrize(
    ("variables", "arguments", "language"),
    [
        ({}, (), "en"),
        ({"LANG": "zh_CN.UTF-8"}, (), "zh"),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, (), "en"),
        ({"NPUDOCTOR_LANG": "zh"}, (), "zh"),
        ({"NPUDOCTOR_LANG": "zh", "LANG": "en_US.UTF-8"}, (), "zh"),
        ({"NPUDOCTOR_LANG": "zh"}, ("--lang", "en"), "en"),
        ({"LANG": "en_US.UTF-8"}, ("--lang=zh",), "zh"),
        ({"LANG": "de_DE.UTF-8"}, (), "en"),
    ],
)
def test_text_speaks_the_callers_language(
    npudoctor: Npudoctor, variables: dict[str, str], arguments: tuple[str, ...], language: str
) -> None:
    assert spoken(npudoctor("check", "accelerator", *arguments, **variables).out) == language
    assert spoken(npudoctor("list", *arguments, **variables).out) == language
    assert spoken(npudoctor("check", "nope", *arguments, **variables).err) == language
    assert spoken(npudoctor("check", "--help", *arguments, **variables).out) == language


def test_a_configured_language_is_for_text(npudoctor: Npudoctor) -> None:
    path = npudoctor.home / ".config/npudoctor/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('lang = "zh"')
    assert spoken(npudoctor("check", "accelerator", LANG="en_US.UTF-8").out) == "zh"
    assert spoken(npudoctor(*JSON).out) == "en"


@pytest.mark.parametrize("variables", [{"LANG": "zh_CN.UTF-8"}, {"NPUDOCTOR_LANG": "zh"}, {"LANGUAGE": "zh"}])
def test_json_is_english_unless_told_otherwise(npudoctor: Npudoctor, variables: dict[str, str]) -> None:
    assert spoken(npudoctor(*JSON, **variables).out) == "en"
    assert spoken(npudoctor(*JSON, "--lang", "zh", **variables).out) == "zh"
    assert spoken(npudoctor("list", "--format", "json", **variables).out) == "en"


def test_only_the_words_differ(npudoctor: Npudoctor) -> None:
    def shape(value: object) -> object:
        if isinstance(value, dict):
            return {key: shape(part) for key, part in value.items()}
        return [shape(part) for part in value] if isinstance(value, list) else type(value).__name__

    english, chinese = npudoctor(*JSON), npudoctor(*JSON, "--lang", "zh")
    assert english.status == chinese.status and shape(english.json) == shape(chinese.json)


TYPED = ("npudoctor", "sudo npudoctor", "-")  # lines and options, which are no words


def test_all_of_the_help_is_chinese(npudoctor: Npudoctor) -> None:
    for command in ((), ("check",), ("fix",), ("undo",), ("history",), ("list",), ("show",), ("schema",)):
        done = npudoctor("--lang", "zh", *command, "--help")
        words = [
            line for line in done.out.splitlines() if re.search(r"[a-z] [a-z]", line) and not CJK.search(line)
        ]
        assert [line for line in words if not line.strip().startswith(TYPED)] == [], done.out


def test_a_terminal_that_cannot_show_chinese_gets_escapes(npudoctor: Npudoctor) -> None:
    done = npudoctor("check", "accelerator", "--lang", "zh", PYTHONIOENCODING="ascii")
    assert done.status == 2 and "\\u" in done.out
