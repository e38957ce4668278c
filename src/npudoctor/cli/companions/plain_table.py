"""Makes the table by which plain command lines are parsed without typer (cli/arguments/table.py)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args

from npudoctor.cli.app import build_command_line, locate_command
from npudoctor.cli.arguments import options as o
from npudoctor.cli.arguments.fleet_commands import HIDDEN
from npudoctor.cli.arguments.parsing import evaluate_hints

# By the types in the hints: other attributes of a parameter differ between versions of typer.
_KINDS: dict[Any, str] = {o.Text: "value", str: "value", o.Texts: "list", bool: "switch", int: "count"}


def make_plain_table() -> dict[str, Any]:
    """By the words of each command that the table can parse, its row."""
    rows = dict(_make_rows(build_command_line(), ()))
    for name in HIDDEN:
        rows.update(_make_rows(build_command_line(("fleet", name)), ()))
    return rows


def _make_rows(click: Any, words: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    if hasattr(click, "commands"):
        for name, below in click.commands.items():
            yield from _make_rows(below, (*words, name))
        return
    module, function = locate_command(words)
    hints = {**evaluate_hints(getattr(import_module(module), function)), "color": o.Color}
    kinds = {parameter.name: _KINDS.get(get_args(hints[parameter.name])[0]) for parameter in click.params}
    options = [parameter for parameter in click.params if parameter.param_type_name == "option"]
    arguments = [
        (parameter.name, kinds[parameter.name] == "list")
        for parameter in click.params
        if parameter.param_type_name == "argument"
    ]
    more_than_text = None in kinds.values() or any(
        parameter.callback or parameter.envvar or parameter.secondary_opts for parameter in click.params
    )
    # When an argument that takes many words is not the last one, only click can distribute the words.
    if more_than_text or any(takes_all for _name, takes_all in arguments[:-1]):
        return
    yield (
        " ".join(words),
        {
            "function": (module, function),
            "interspersed": click.allow_interspersed_args,
            "arguments": arguments,
            "options": {
                name: (kinds[parameter.name], parameter.name)
                for parameter in options
                for name in parameter.opts
            },
        },
    )
