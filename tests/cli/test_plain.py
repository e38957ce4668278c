"""A plain command line of `check` is read without typer, and means what it means to typer."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any, Optional

import pytest

from npudoctor.cli.app import command_line
from npudoctor.cli.arguments import plain

PLAIN = (
    ("check",),
    ("check", "cache-server", "leftovers", "--format", "json"),
    ("check", "--format=json", "-v", "numpy-version"),
    ("check", "--quiet", "--ignore", "a=b", "--ignore=c", "--ignore", "d,e"),
    ("check", "--config=/a=b", "--peers", "10.0.0.1,node2", "--wait", "3", "--lang", "zh"),
    ("check", ""),
    ("check", "-v", "clock", "--verbose"),
    ("check", "-vv", "--color", "always"),
)
LEFT_TO_TYPER = (
    (),
    ("list",),
    ("--lang", "en", "check"),
    ("check", "--help"),
    ("check", "-h"),
    ("check", "-vq"),
    ("check", "-x"),
    ("check", "--formt", "json"),
    ("check", "--format"),
    ("check", "--format="),
    ("check", "--format", "-v"),
    ("check", "--format", "json", "--format", "text"),
    ("check", "--verbose=1"),
    ("check", "--", "numpy-version"),
    ("check", "--deadline", "-3"),
    ("check", "-"),
)


def _parameters() -> list[Any]:
    command = command_line(["check"])
    return list(command.commands["check"].params)


def _by_typer(words: tuple[str, ...]) -> dict[str, Any]:
    """What typer tells; some of its versions give None for an empty list."""
    command = command_line(["check"]).commands["check"]
    with command.make_context("check", list(words[1:])) as context:
        return {name: value or None for name, value in context.params.items()}


def test_the_table_is_the_grammar_of_typer() -> None:
    """Whoever adds an option adds it in both places."""
    told: dict[str, tuple[str, str]] = {}
    for parameter in _parameters():
        flag = getattr(parameter, "is_flag", False)
        kind = (
            "count"
            if getattr(parameter, "count", False)
            else "switch"
            if flag
            else "list"
            if parameter.multiple
            else "value"
        )
        told.update({name: (kind, parameter.name) for name in parameter.opts if name.startswith("-")})
    ours = {name: ("value", key) for name, key in plain.VALUES.items()}
    ours.update({name: ("list", key) for name, key in plain.LISTS.items()})
    ours.update({name: ("switch", key) for name, key in plain.SWITCHES.items()})
    ours.update({name: ("count", key) for name, key in plain.COUNTS.items()})
    assert ours == told


@pytest.mark.parametrize("words", PLAIN)
def test_it_means_the_same(words: tuple[str, ...]) -> None:
    flags: Optional[dict[str, Any]] = plain.check_flags(list(words))
    assert flags is not None
    assert {name: value or None for name, value in flags.items()} == _by_typer(words)


@pytest.mark.parametrize("words", LEFT_TO_TYPER)
def test_all_else_is_left_to_typer(words: tuple[str, ...]) -> None:
    assert plain.check_flags(list(words)) is None


DEAR = (
    *("typer", "click", "dataclasses", "inspect", "pathlib", "difflib", "importlib.metadata", "packaging"),
    "npudoctor.core.redact.redactor",  # loaded in each run by a sentence of ours that looks like a secret
)


@pytest.mark.parametrize("expect", ["none", "auto"])
def test_a_plain_check_loads_nothing_dear(expect: str) -> None:
    """Each of these costs as much as many checks; `make bench` sees it late, and only as a number."""
    script = (
        f"import sys; sys.argv = ['npudoctor', 'check', '--expect', '{expect}', '--profile', 'quick'];"
        "import npudoctor.__main__ as entry, npudoctor.cli.main as main, os;"
        f"main.leave = lambda status: (os.write(1, repr([n for n in {DEAR!r} if n in sys.modules]).encode()),"
        "os._exit(0)); main.leave(entry.main())"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _with_path(script)], capture_output=True)
    assert done.stderr.endswith(b"[]"), done  # during a run descriptor 1 is standard error


def _with_path(script: str) -> str:
    """Without `site`, whose hooks of an editable install load what they like."""
    import npudoctor

    package = npudoctor.__path__[0]
    checks = next(iter(import_module("npudoctor.checks").__path__))
    return (
        f"import sys; sys.path.insert(0, {package.rpartition('/')[0]!r}); import npudoctor, types;"
        f"checks = types.ModuleType('npudoctor.checks'); checks.__path__ = [{checks!r}];"
        f"sys.modules['npudoctor.checks'] = npudoctor.checks = checks; {script}"
    )
