"""Parses a plain command line by a table: importing typer takes as long as most checks together.

The build makes the table from the declarations of the commands (cli/companions/plain_table.py). Lines that it
cannot parse with certainty (help, most errors, values that look like options) are left to typer, and so are
all lines when no table was built. An unknown option is refused here: typer would refuse it, too, a tenth of a
second later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Callable, Optional

ParsedLine = tuple[Callable[..., int], dict[str, Any]]
FILE = os.path.join(os.path.dirname(__file__), "plain.json")
_UNKNOWN = ("", "")


def read_line(argv: Sequence[str], file: str = FILE) -> Optional[ParsedLine]:
    """The function of a command line's command, and its parameters; None when typer must parse the line.

    Raises UsageError when the command has no such option.
    """
    try:
        with open(file, encoding="utf-8") as opened:
            table = json.load(opened)
    except OSError:
        return None
    length = 1 if argv and argv[0] in table else 2
    row = table.get(" ".join(argv[:length]))
    if row is None:
        return None
    values: dict[str, Any] = {"color": None}
    positional: list[str] = []
    words = iter(argv[length:])
    for word in words:
        if word == "--":
            positional += words
        elif word == "-" or not word.startswith("-"):
            positional.append(word)
            if not row["interspersed"]:  # the other words are those of the job's command
                positional += words
        elif not _take_option(word, words, row["options"], values):
            _refuse_unknown_option(word.partition("=")[0], row)
            return None
    for parameter, takes_all in row["arguments"]:
        if positional:
            values[parameter] = positional if takes_all else positional.pop(0)
            positional = [] if takes_all else positional
    if positional:
        return None
    function, names = _load_function(row)
    defaults = function.__defaults__ or ()
    parameters = dict(zip(names[len(names) - len(defaults) :], defaults))
    parameters.update(values)
    # Left to typer when a required parameter is missing, or when the sources are newer than the table.
    return (function, parameters) if parameters.keys() == {*names, "color"} else None


def _load_function(row: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The function of a command, and the names of its parameters after `caller`."""
    module, name = row["function"]
    function = getattr(import_module(module), name)
    # Not inspect.signature: importing inspect would cost time in every start.
    return function, function.__code__.co_varnames[1 : function.__code__.co_argcount]


def _refuse_unknown_option(option: str, row: Mapping[str, Any]) -> None:
    """Raise UsageError when a command has no such option; return when only typer can tell what is wrong."""
    if not option.startswith("--") or option in (*row["options"], "--help"):
        return
    parameters = [parameter for _kind, parameter in row["options"].values()]
    parameters += [parameter for parameter, _takes_all in row["arguments"]]
    if {*parameters, "color"} == {
        *_load_function(row)[1],
        "color",
    }:  # else the sources are newer than the table
        from npudoctor.cli.config import UsageError, no_such_option

        raise UsageError(no_such_option(option, [*row["options"], "-h", "--help"]))


def _take_option(
    word: str, words: Iterator[str], options: dict[str, tuple[str, str]], values: dict[str, Any]
) -> bool:
    """Add the value of an option to `given`, taking the next word if needed; False when typer must parse
    it."""
    name, equal, value = word.partition("=")
    kind, parameter = options.get(name, _UNKNOWN)
    if kind in ("value", "list"):
        value = value if equal else next(words, "")
        if not value or (value.startswith("-") and value != "-") or (equal and not name.startswith("--")):
            return False
        if kind == "list":
            values[parameter] = [*values.get(parameter, ()), value]
        elif values.get(parameter) is None:
            values[parameter] = value
        else:  # given twice: typer decides
            return False
        return True
    for switch in [word] if kind else [f"-{letter}" for letter in word[1:]]:  # -vvq is -v -v -q
        kind, parameter = options.get(switch, _UNKNOWN)
        if kind not in ("switch", "count"):
            return False
        values[parameter] = True if kind == "switch" else values.get(parameter, 0) + 1
    return True
