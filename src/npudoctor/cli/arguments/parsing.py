"""How command lines are parsed and their help is written: the same with every version of typer."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from npudoctor.cli.arguments import fleet_options as f
from npudoctor.cli.arguments import options as o
from npudoctor.cli.caller import Caller, call_command
from npudoctor.cli.config import UsageError, is_usage_error, suggestion
from npudoctor.core.messages import _
from npudoctor.render.columns import pad, width, wrap


class _Common:
    """What only some versions of click do: translate all of the help, say whose option was wrong."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Take the arguments; an error knows its context."""
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except Exception as error:
            if is_usage_error(error) and getattr(error, "ctx", None) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """The usage line, with arguments as they are declared."""
        arguments, _options = _parameters(ctx)
        pieces = [self.options_metavar, *(argument.metavar for argument in arguments)]  # type: ignore[attr-defined]
        if isinstance(self, TyperGroup):
            pieces.append(self.subcommand_metavar)
        formatter.write_usage(ctx.command_path, " ".join(pieces), _("Usage: "))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options, and the commands of a group."""
        arguments, options = _parameters(ctx)
        records = [option.get_help_record(ctx) for option in options]
        for title, rows in (
            # typer 0.29 writes `ARGUMENT <list[str]>`.
            (_("Arguments"), [(argument.metavar, argument.help) for argument in arguments]),
            (
                _("Options"),
                [record for record in records if record],
            ),
        ):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)

    def get_help(self, ctx: Any) -> str:
        """The help, laid out by the columns that characters take: click counts a Chinese one as one."""
        ctx.formatter_class = type("Formatter", (_Columns, ctx.formatter_class), {})
        formatter = ctx.make_formatter()
        self.format_help(ctx, formatter)  # type: ignore[attr-defined]
        return str(formatter.getvalue()).rstrip("\n")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples, last."""
        from npudoctor.cli.arguments.examples import examples_of

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


def _parameters(ctx: Any) -> tuple[list[Any], list[Any]]:
    """The arguments and the options that help shows."""
    parameters = ctx.command.get_params(ctx)
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    return arguments, [parameter for parameter in parameters if parameter not in arguments]


class _Columns:
    """What click's formatter does, in texts with characters that are two columns wide."""

    def write_text(self: Any, text: str) -> None:
        """A paragraph."""
        if text.isascii():
            super().write_text(text)  # type: ignore[misc]
            return
        indent = " " * self.current_indent
        for line in wrap(text, self.width - self.current_indent):
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
            lines = list(wrap(second, self.width - column - self.current_indent)) if second else [""]
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


def command_function(function: Callable[..., int]) -> Callable[..., int]:
    """What typer makes a command of: the function with its hints evaluated, and --color, which all take."""
    hints = evaluated_hints(function)

    def command(ctx: typer.Context, **parameters: Any) -> int:
        # Some versions tell an option that nobody gave as an empty list, some as None.
        told = {name: None if value == [] else value for name, value in parameters.items()}
        return call_command(function, told, ctx.obj)

    parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(function).parameters.values())[1:]
    ]
    place = next(
        (number for number, parameter in enumerate(parameters) if parameter.name == "lang"), len(parameters)
    )
    color = inspect.Parameter("color", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=o.Color)
    parameters.insert(place, color)
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *parameters)}
    command.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    return command


def evaluated_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints of a command, which are text until somebody needs them: so nothing of typer is loaded for a
    line that the table reads. `o`, `f` and `Caller` in them are known to type checkers and here alone."""
    known = {**function.__globals__, "typer": typer, "o": o, "f": f, "Caller": Caller}
    hints = get_type_hints(function, known, include_extras=True)
    # Before Python 3.11 an Optional is put around a hint whose default is None; typer then sees no option.
    inner = {name: get_args(hint)[0] for name, hint in hints.items() if get_origin(hint) is Union}
    hints.update((name, hint) for name, hint in inner.items() if hasattr(hint, "__metadata__"))
    return hints
