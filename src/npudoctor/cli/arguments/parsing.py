"""How command lines are parsed and their help is written: the same with every version of typer."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from npudoctor.cli.arguments import options as o
from npudoctor.cli.config import UsageError, suggestion
from npudoctor.core.messages import _
from npudoctor.render.columns import pad, width, wrapped

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

    def get_help(self, ctx: Any) -> str:
        """The help, laid out by the columns that characters take: click counts a Chinese one as one."""
        formatter = ctx.make_formatter()
        kind = type(formatter)
        formatter.__class__ = type(kind.__name__, (_Columns, kind), {})
        self.format_help(ctx, formatter)  # type: ignore[attr-defined]
        return str(formatter.getvalue()).rstrip("\n")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples, last."""
        from npudoctor.cli.companions.examples import examples_of

        super().format_epilog(ctx, formatter)  # type: ignore[misc]
        examples = examples_of(tuple(ctx.command_path.split()[1:]))
        if examples:
            with formatter.section(_("Examples")):
                formatter.write_dl(examples)

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.help = _("Show this message and exit.")
        return option


class _Columns:
    """What click's formatter does, in texts with characters that are two columns wide."""

    def write_text(self: Any, text: str) -> None:
        """A paragraph."""
        if text.isascii():
            super().write_text(text)  # type: ignore[misc]
            return
        indent = " " * self.current_indent
        for line in wrapped(text, self.width - self.current_indent):
            self.write(f"{indent}{line}\n")

    def write_dl(self: Any, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
        """Two columns, of which the first is ASCII."""
        rows = list(rows)
        if all(text.isascii() for row in rows for text in row):
            super().write_dl(rows, col_max, col_spacing)  # type: ignore[misc]
            return
        column = min(max(width(first) for first, _second in rows), col_max) + col_spacing
        indent = " " * self.current_indent
        for first, second in rows:
            lines = list(wrapped(second, self.width - column - self.current_indent)) if second else [""]
            if width(first) > column - col_spacing:
                self.write(f"{indent}{first}\n")
                first = ""
            for number, line in enumerate(lines):
                self.write(f"{indent}{pad('' if number else first, column)}{line}".rstrip() + "\n")


class StrictCommand(_Common, TyperCommand):
    """A command that refuses arguments which it does not take, naming the first."""

    allow_extra_args = True  # to see them ourselves

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Take the arguments; UsageError when some are left."""
        super().parse_args(ctx, args)
        if ctx.args:
            raise UsageError(_("unexpected argument: {argument}", argument=ctx.args[0]))
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
            raise UsageError(_("no such command: {name}{suggestion}", name=name, suggestion=near))
        return super().resolve_command(ctx, args)


def evaluate_hints(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its hints evaluated: on Python 3.9 typer overlooks options in hints that are text."""
    hints = get_type_hints(function, include_extras=True)
    function.__annotations__ = {name: _unwrapped(hint) for name, hint in hints.items()}
    return function


def command_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """What typer makes a command of: the function, its hints evaluated, and --color, which all take."""
    function = evaluate_hints(function)

    def command(*args: Any, color: o.Text = None, **kwargs: Any) -> Any:
        from npudoctor.cli.terminal.reports import choose_color

        choose_color(color)
        return function(*args, **kwargs)

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    place = next((number for number, one in enumerate(parameters) if one.name == "lang"), len(parameters))
    color = inspect.Parameter(
        "color", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=o.Color
    )
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*parameters[:place], color, *parameters[place:]]
    )
    command.__annotations__ = {**function.__annotations__, "color": o.Color}
    return command


def _unwrapped(hint: Any) -> Any:
    """Without the Optional that get_type_hints puts around a hint whose default is None, before 3.11."""
    inner = get_args(hint)[0] if get_origin(hint) is Union else None
    return inner if hasattr(inner, "__metadata__") else hint
