"""Parses command lines and writes their help, in the same way with every version of typer."""

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


class _CommonParsing:
    """What only some versions of click do: translate all of the help, and set the context of a usage
    error."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Parse the arguments; a usage error gets its context, which names the command."""
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except Exception as error:
            if is_usage_error(error) and getattr(error, "ctx", None) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the usage line, with the metavars of the arguments as declared."""
        arguments, _options = _split_parameters(ctx)
        pieces = [self.options_metavar, *(argument.metavar for argument in arguments)]  # type: ignore[attr-defined]
        if isinstance(self, TyperGroup):
            pieces.append(self.subcommand_metavar)
        formatter.write_usage(ctx.command_path, " ".join(pieces), _("Usage: "))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and the commands of a group."""
        arguments, options = _split_parameters(ctx)
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
        """The help text, laid out by display columns: click counts a Chinese character as one, it takes
        two."""
        ctx.formatter_class = type("Formatter", (_WideFormatter, ctx.formatter_class), {})
        formatter = ctx.make_formatter()
        self.format_help(ctx, formatter)  # type: ignore[attr-defined]
        return str(formatter.getvalue()).rstrip("\n")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as the last section."""
        from npudoctor.cli.arguments.examples import examples_of

        super().format_epilog(ctx, formatter)  # type: ignore[misc]
        examples = examples_of(tuple(ctx.command_path.split()[1:]))
        if examples:
            with formatter.section(_("Examples")):
                formatter.write_dl(examples)

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help, with translated help."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.help = _("Show this message and exit.")
        return option


def _split_parameters(ctx: Any) -> tuple[list[Any], list[Any]]:
    """The arguments and the options of a command, in the order of its declaration."""
    parameters = ctx.command.get_params(ctx)
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    return arguments, [parameter for parameter in parameters if parameter not in arguments]


class _WideFormatter:
    """Mixed into click's formatter: lays out texts with characters that are two columns wide."""

    def write_text(self: Any, text: str) -> None:
        """Write a paragraph."""
        if text.isascii():
            super().write_text(text)  # type: ignore[misc]
            return
        indent = " " * self.current_indent
        for line in wrap(text, self.width - self.current_indent):
            self.write(f"{indent}{line}\n")

    def write_dl(self: Any, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
        """Write a definition list; the first column is ASCII."""
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


class StrictCommand(_CommonParsing, TyperCommand):
    """A command that rejects surplus arguments, and names the first of them."""

    allow_extra_args = True  # click must not reject them: its message differs between versions

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Parse the arguments; raises UsageError when some are left over."""
        super().parse_args(ctx, args)
        if ctx.args:
            raise UsageError(_("unexpected argument: {argument}", argument=ctx.args[0]))
        return ctx.args


class WrapperCommand(StrictCommand):
    """A command that starts another one: its own options end at "--" or at the first other word."""

    allow_interspersed_args = False


class CommandGroup(_CommonParsing, TyperGroup):
    """A group whose error for an unknown command suggests a similar one."""

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """The command of this name; raises UsageError when there is none."""
        name = str(args[0])
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = suggestion(name, set(self.list_commands(ctx)))
            raise UsageError(_("no such command: {name}{suggestion}", name=name, suggestion=near))
        return super().resolve_command(ctx, args)


def make_command_function(function: Callable[..., int]) -> Callable[..., int]:
    """The function from which typer makes a command: with evaluated hints, and --color, which all commands
    have."""
    hints = evaluate_hints(function)

    def command(ctx: typer.Context, **parameters: Any) -> int:
        # Some versions of typer pass an absent list option as [], some as None.
        values = {name: None if value == [] else value for name, value in parameters.items()}
        return call_command(function, values, ctx.obj)

    parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(function).parameters.values())[1:]
    ]
    index = next(
        (number for number, parameter in enumerate(parameters) if parameter.name == "lang"), len(parameters)
    )
    color = inspect.Parameter("color", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=o.Color)
    parameters.insert(index, color)
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *parameters)}
    command.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    return command


def evaluate_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Evaluate the hints of a command.

    They stay strings until then, so that a line which the table can read does not import typer. The names
    `o`, `f` and `Caller` in them are imported for type checkers only, and defined here.
    """
    namespace = {**function.__globals__, "typer": typer, "o": o, "f": f, "Caller": Caller}
    hints = get_type_hints(function, namespace, include_extras=True)
    # Before Python 3.11 get_type_hints wraps a hint with the default None into Optional, which hides the
    # Annotated from typer.
    inner = {name: get_args(hint)[0] for name, hint in hints.items() if get_origin(hint) is Union}
    hints.update((name, hint) for name, hint in inner.items() if hasattr(hint, "__metadata__"))
    return hints
