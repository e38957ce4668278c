"""--color, and the variables by which people say the same to all programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import pytest

from npudoctor.cli.companions.grammar import all_commands, command_tree
from npudoctor.cli.config import UsageError
from npudoctor.cli.terminal import reports

from .command import Npudoctor

XTERM = {"TERM": "xterm"}


@pytest.fixture(autouse=True)
def auto(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What one test chooses counts for no other."""
    monkeypatch.setattr(reports, "_color", "auto")
    yield


@pytest.mark.parametrize(
    ("variables", "terminal", "coloured"),
    [
        (XTERM, True, True),
        (XTERM, False, False),
        ({}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({**XTERM, "NO_COLOR": "1"}, True, False),
        ({**XTERM, "NO_COLOR": ""}, True, True),
        ({**XTERM, "CLICOLOR": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb", "FORCE_COLOR": "3"}, False, True),
        ({"CLICOLOR_FORCE": "0"}, False, False),
        ({"FORCE_COLOR": ""}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_auto_heeds_the_variables(variables: Mapping[str, str], terminal: bool, coloured: bool) -> None:
    assert reports.wants_color(variables, terminal) is coloured
    reports.choose_color("always")
    assert reports.wants_color(variables, terminal)
    reports.choose_color("never")
    assert not reports.wants_color(variables, terminal)


def test_another_npudoctor_is_told_the_same() -> None:
    for choice, coloured in (("always", True), ("never", False)):
        reports.choose_color(choice)
        told = reports.color_variables({**XTERM, "NO_COLOR": "1", "FORCE_COLOR": "1"})
        reports.choose_color("auto")
        assert reports.wants_color(told, terminal=False) is coloured


def test_what_is_no_choice_is_refused_with_the_one_that_is_near() -> None:
    with pytest.raises(
        UsageError, match="--color: 'nevr' is not one of auto, always, never; did you mean never"
    ):
        reports.choose_color("nevr")


def test_each_command_takes_it() -> None:
    for command in all_commands(command_tree()):
        names = {name for option in command.options for name in option.names}
        assert "--color" in names or command.words == ("fleet",), command.words


@pytest.mark.parametrize(
    "words", [("check", "clock"), ("--color=always", "check", "clock"), ("fix", "clock", "--dry-run")]
)
def test_in_a_pipe_there_is_colour_where_it_is_asked_for(
    npudoctor: Npudoctor, words: tuple[str, ...]
) -> None:
    options = ((), ("--color", "always"), ("--color=never",), (), ("--color", "never"))
    forced = {"FORCE_COLOR": "1"}
    plain, always, never, told, but = npudoctor.each(
        [(*words, *option) for option in options], [{}, {}, {}, forced, forced]
    )
    assert ("\x1b[" in plain.out) is (words[0] == "--color=always")
    assert "\x1b[1;3" in always.out and always.status == plain.status
    assert "\x1b[1;3" in told.out and "\x1b[" not in never.out + but.out


def test_a_start_of_its_own_is_coloured_alike(npudoctor: Npudoctor) -> None:
    assert "\x1b[1;3" in npudoctor("check", "clock", FORCE_COLOR="1").out
    assert "\x1b[" not in npudoctor("check", "clock", "--color", "never", FORCE_COLOR="1").out


def test_a_file_is_coloured_by_choice_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reports, "os", SimpleNamespace(environ={"FORCE_COLOR": "1"}, isatty=lambda _fd: False)
    )
    assert not reports.style_at(None).colour and reports.style_at(1).colour
    reports.choose_color("always")
    assert reports.style_at(None).colour


def test_json_is_never_coloured(npudoctor: Npudoctor) -> None:
    assert npudoctor("check", "clock", "--format", "json", "--color", "always").json["schema"]
