"""What a report looks like on a terminal: colours and symbols where they can be shown, its whole width."""

from __future__ import annotations

import re
from typing import Optional

import pytest
from tests.support.terminals import Terminal

from npudoctor.render.columns import width

from .command import Npudoctor

CAN = {"TERM": "xterm-256color", "LANG": "en_US.UTF-8"}
SICK = """
yield Finding("sick.bad", "it is bad: " + "word " * 40, evidence=("seen: 5",))
yield Finding("sick.odd", "it is odd")
"""


@pytest.fixture
def sick(npudoctor: Npudoctor) -> Npudoctor:
    npudoctor.drop_in("sick", SICK)
    return npudoctor


def shown(
    run: Npudoctor, *arguments: str, columns: int = 80, variables: Optional[dict[str, str]] = None
) -> str:
    argv, environment = run.argv("check", "sick", *arguments), run.environment({**CAN, **(variables or {})})
    with Terminal(argv, environment, columns, cwd=str(run.folder)) as terminal:
        return terminal.whole()


def test_a_terminal_that_can_has_symbols_and_colours(sick: Npudoctor) -> None:
    text = shown(sick)
    assert "\x1b[31m✗\x1b[0m \x1b[1msick.bad\x1b[0m: it is bad" in text
    assert "\x1b[33m!\x1b[0m \x1b[1msick.odd\x1b[0m: it is odd" in text
    assert "\x1b[1;31mNOT READY\x1b[0m" in text


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_a_terminal_that_cannot_has_plain_words(sick: Npudoctor, variables: dict[str, str]) -> None:
    text = shown(sick, variables=variables)
    assert "\x1b" not in text and text.isascii()
    assert "\nerror sick.bad: it is bad" in text and "\nwarning sick.odd: it is odd\n" in text


@pytest.mark.parametrize("variables", [{"LC_ALL": "C"}, {"LANG": "C"}, {"LANG": "POSIX"}, {"LANG": ""}])
def test_the_c_locale_has_words(sick: Npudoctor, variables: dict[str, str]) -> None:
    text = shown(sick, variables=variables)
    assert text.isascii() and "\x1b[31merror\x1b[0m" in text


def test_a_file_has_neither(sick: Npudoctor) -> None:
    with open(sick.folder / "out", "w+", encoding="utf-8") as file:
        with Terminal(
            sick.argv("check", "sick"), sick.environment(dict(CAN)), 120, out=file.fileno()
        ) as terminal:
            terminal.whole()
        file.seek(0)
        text = file.read()
    assert text.isascii() and "\x1b" not in text and text.startswith("npudoctor ")
    assert max(map(len, text.splitlines())) <= 80
    shown(sick, "--output", "again")
    assert (sick.folder / "again").read_text() == text


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("columns", [50, 80, 120])
def test_the_terminals_width_is_used(sick: Npudoctor, columns: int, language: str) -> None:
    text = re.sub("\x1b\\[[0-9;]*m", "", shown(sick, "--lang", language, columns=columns))
    widths = [width(line) for line in text.splitlines()]
    assert columns - 12 < max(widths) <= columns


def test_columns_says_more_than_the_terminal(sick: Npudoctor) -> None:
    def widest(text: str) -> int:
        return max(map(len, text.splitlines()))

    assert 50 < widest(shown(sick, columns=120, variables={"COLUMNS": "60", "NO_COLOR": "1"})) <= 60
    assert 100 < widest(sick("check", "sick", COLUMNS="110").out) <= 110
    odd = [{"COLUMNS": columns} for columns in ("0", "-5", "x", "1e3", "99999")]
    for done in sick.each([("check", "sick")] * len(odd), odd):
        assert 50 < widest(done.out) <= 80


def test_json_is_the_same_everywhere(sick: Npudoctor) -> None:
    def without_times(text: str) -> str:
        return re.sub(r'"(seconds|started)": [^\n]*', "", text)

    plain = without_times(sick("check", "sick", "--format", "json").out)
    assert without_times(shown(sick, "--format", "json", columns=120)) == plain
    assert without_times(sick("check", "sick", "--format", "json", COLUMNS="50", NO_COLOR="1").out) == plain
