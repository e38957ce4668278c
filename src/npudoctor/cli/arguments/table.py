"""Reads a plain command line by a table: loading typer takes as long as most checks together.

The build makes the table of what the commands declare (cli/companions/plain_table.py). Whatever it cannot
read for certain (help, most errors, values that look like options) is left to typer, and so is every line
where no table was built. An option that is not there, which is mostly mistyped, is refused here: typer would
stop at it too, and say so a tenth of a second later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Callable, Optional

Called = tuple[Callable[..., int], dict[str, Any]]
FILE = os.path.join(os.path.dirname(__file__), "plain.json")
_UNKNOWN = ("", "")


def read_line(argv: Sequence[str], file: str = FILE) -> Optional[Called]:
    """The function of the command that a line names, and its parameters; None for what typer must read;
    UsageError where the command has no such option."""
    try:
        with open(file, encoding="utf-8") as opened:
            table = json.load(opened)
    except OSError:
        return None
    length = 1 if argv and argv[0] in table else 2
    row = table.get(" ".join(argv[:length]))
    if row is None:
        return None
    given: dict[str, Any] = {"color": None}
    positional: list[str] = []
    words = iter(argv[length:])
    for word in words:
        if word == "--":
            positional += words
        elif word == "-" or not word.startswith("-"):
            positional.append(word)
            if not row["interspersed"]:  # the rest is another command's
                positional += words
        elif not _take_option(word, words, row["options"], given):
            _refuse(word.partition("=")[0], row)
            return None
    for parameter, takes_all in row["arguments"]:
        if positional:
            given[parameter] = positional if takes_all else positional.pop(0)
            positional = [] if takes_all else positional
    if positional:
        return None
    function, names = _function(row)
    defaults = function.__defaults__ or ()
    parameters = dict(zip(names[len(names) - len(defaults) :], defaults))
    parameters.update(given)
    # Neither when a required one is missing, nor when the sources are newer than the table.
    return (function, parameters) if parameters.keys() == {*names, "color"} else None


def _function(row: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The function of a command, and the names of its parameters behind the caller."""
    module, name = row["function"]
    function = getattr(import_module(module), name)
    return function, function.__code__.co_varnames[1 : function.__code__.co_argcount]


def _refuse(option: str, row: Mapping[str, Any]) -> None:
    """UsageError where a command has no such option; nothing is said where only typer knows what is wrong."""
    if not option.startswith("--") or option in (*row["options"], "--help"):
        return
    parameters = [parameter for _kind, parameter in row["options"].values()]
    parameters += [parameter for parameter, _takes_all in row["arguments"]]
    if {*parameters, "color"} == {*_function(row)[1], "color"}:  # else the sources are newer than the table
        from npudoctor.cli.config import UsageError, no_such_option

        raise UsageError(no_such_option(option, [*row["options"], "-h", "--help"]))


def _take_option(
    word: str, words: Iterator[str], options: dict[str, tuple[str, str]], given: dict[str, Any]
) -> bool:
    """Add what a word with a dash says, with the value behind it; whether it is plain."""
    name, equal, value = word.partition("=")
    kind, parameter = options.get(name, _UNKNOWN)
    if kind in ("value", "list"):
        value = value if equal else next(words, "")
        if not value or (value.startswith("-") and value != "-") or (equal and not name.startswith("--")):
            return False
        if kind == "list":
            given[parameter] = [*given.get(parameter, ()), value]
        elif given.get(parameter) is None:
            given[parameter] = value
        else:  # twice
            return False
        return True
    for switch in [word] if kind else [f"-{letter}" for letter in word[1:]]:  # -vvq is -v -v -q
        kind, parameter = options.get(switch, _UNKNOWN)
        if kind not in ("switch", "count"):
            return False
        given[parameter] = True if kind == "switch" else given.get(parameter, 0) + 1
    return True
