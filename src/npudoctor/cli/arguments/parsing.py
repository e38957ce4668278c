"""How command lines are parsed and their help is written: the same with every version of typer."""

from __future__ import annotations

from typing import Any, Callable, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from npudoctor.cli.config import UsageError, suggestion
from npudoctor.core.messages import _

# typer carries its own click from 0.26 on: what a usage error is, only typer can tell.
USAGE_ERROR: Any = typer.BadParameter.__mro__[2]


class _Common:
    """What only some versions of click do: translate all of the help, say whose option was wrong."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Take the arguments; an error knows its context."""
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except USAGE_ERROR as error:
            if getattr(error, "ctx", None) is None:
                error.ctx = ctx
            raise

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """The usage line."""
        pieces = self.collect_usage_pieces(ctx)  # type: ignore[attr-defined]
        formatter.write_usage(ctx.command_path, " ".join(pieces), _("Usage: "))

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.help = _("Show this message and exit.")
        return option


class StrictCommand(_Common, TyperCommand):
    """A command that refuses arguments which it does not take, naming the first."""

    allow_extra_args = True  # to see them ourselves

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Take the arguments; UsageError when some are left."""
        super().parse_args(ctx, args)
        if ctx.args:
            raise UsageError(_("unexpected argument: {argument}").format(argument=ctx.args[0]))
        return ctx.args


class Wrapper(StrictCommand):
    """A command that starts another: its own options end at "--" or at the first other word."""

    allow_interspersed_args = False


class Group(_Common, TyperGroup):
    """Names an unknown command, and the known one that comes near."""

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """The command of this name; UsageError when there is none."""
        name = str(args[0])
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = suggestion(name, set(self.list_commands(ctx)))
            raise UsageError(_("no such command: {name}{suggestion}").format(name=name, suggestion=near))
        return super().resolve_command(ctx, args)


def evaluate_hints(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its hints evaluated: on Python 3.9 typer overlooks options in hints that are text."""
    hints = get_type_hints(function, include_extras=True)
    function.__annotations__ = {name: _unwrapped(hint) for name, hint in hints.items()}
    return function


def _unwrapped(hint: Any) -> Any:
    """Without the Optional that get_type_hints puts around a hint whose default is None, before 3.11."""
    inner = get_args(hint)[0] if get_origin(hint) is Union else None
    return inner if hasattr(inner, "__metadata__") else hint
