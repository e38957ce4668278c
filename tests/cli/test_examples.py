"""Each command shows examples, and each of them is a line that our grammar takes."""

from __future__ import annotations

import functools
import re
import shlex
from typing import Any

import pytest

from npudoctor.cli.app import build_command_line
from npudoctor.cli.arguments.examples import EXAMPLES
from npudoctor.cli.arguments.fleet_commands import HIDDEN
from npudoctor.cli.companions.grammar import (
    CommandSpec,
    CompletionWords,
    all_commands,
    command_tree,
    list_known_words,
)
from npudoctor.rehearsal.faults import FAULTS
from npudoctor.render.columns import width

from .command import Npudoctor

LINES = [(words, line) for words, examples in EXAMPLES.items() for line, _text in examples]
SCHEMAS = "report|fix|explain|history|snapshot|diff|fleet|fleet-fix|pairs".split("|")


def _words(line: str) -> list[str]:
    """What npudoctor is called with: without the shell around it."""
    evaluated = re.search(r"\$\((npudoctor [^)]*)\)", line)
    tokens = shlex.split(evaluated[1] if evaluated else line)
    tokens = tokens[tokens.index("npudoctor") + 1 :]
    return tokens[: next((n for n, token in enumerate(tokens) if token in ("|", ">", "<")), len(tokens))]


def _parsed(words: list[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The command that the words name, and its parameters; raises what typer raises for a wrong line."""
    command, context, path = build_command_line(words), None, []
    name = "npudoctor"
    while hasattr(command, "commands"):
        context = command.make_context(name, list(words), parent=context)
        # The protected arguments are those that name the command; click 8.2 gave the attribute another name.
        kept = vars(context)
        rest = [*(kept.get("_protected_args") or kept.get("protected_args") or ()), *context.args]
        name, command, words = command.resolve_command(context, rest)
        path.append(name)
    with command.make_context(name, list(words), parent=context) as context:
        return tuple(path), dict(context.params)


@functools.cache
def _commands() -> dict[tuple[str, ...], CommandSpec]:
    return {command.words: command for command in all_commands(command_tree())}


@functools.cache
def _known() -> CompletionWords:
    return list_known_words()


def test_each_command_has_examples() -> None:
    assert set(EXAMPLES) == set(_commands())
    assert not {("fleet", name) for name in HIDDEN} & set(EXAMPLES)


@pytest.mark.parametrize(("words", "line"), LINES)
def test_an_example_is_a_line_that_we_take(words: tuple[str, ...], line: str) -> None:
    path, parameters = _parsed(_words(line))
    assert path[: len(words)] == words or (words, path) == (("snapshot",), ("check",))
    for option in _commands()[path].options:
        key = option.names[-1].lstrip("-").replace("-", "_")
        if option.value is not None and option.value.choices and parameters.get(key) is not None:
            assert parameters[key] in option.value.choices, option.names
    known = _known()
    if path == ("check",):
        assert set(parameters["names"] or ()) <= {*known.ids, *known.groups, *known.codes}
        assert {name.partition("=")[0] for name in parameters["ignore"] or ()} <= {*known.ids, *known.codes}
    elif path == ("show",):
        assert parameters["name"] in (*known.ids, *known.codes)
    elif path == ("rehearse",) and not parameters["listing"]:
        assert parameters["name"] in FAULTS
    elif path == ("schema",):
        assert parameters["document"] in SCHEMAS


def test_a_wrong_example_would_be_seen() -> None:
    with pytest.raises(Exception, match="nope"):
        _parsed(_words("npudoctor check --nope | cat"))
    with pytest.raises(Exception, match="chekc"):
        _parsed(_words('eval "$(npudoctor chekc)"'))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("words", [("check",), ("run",), ("fleet", "check"), ("history",), ()])
def test_help_fits_into_80_columns_and_ends_with_examples(
    npudoctor: Npudoctor, words: tuple[str, ...], language: str
) -> None:
    arguments = [*words, "--help"] if words else ["--lang", language, "--help"]
    done = npudoctor(*arguments, *(("--lang", language) if words else ()))
    assert done.status == 0, done.err
    assert [line for line in done.out.splitlines() if width(line) > 80] == []
    lines = re.split("\n(?:Examples|示例)[:：]\n", done.out)[1]
    assert all(line in lines for line, _text in EXAMPLES[words])


def test_a_plain_check_does_not_load_them() -> None:
    import subprocess
    import sys

    script = (
        "import sys; sys.argv = ['npudoctor', 'check', 'clock', '-q']; import npudoctor.__main__ as entry;"
        "entry.main(); print([name for name in sys.modules if name.endswith(('.examples', '.suggestions'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("[]\n"), done  # during a run descriptor 1 is standard error
