"""The command line as a whole: which commands there are, and what stands before them."""

from __future__ import annotations

from typing import Any, Callable, Optional, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from npudoctor import __version__
from npudoctor.cli import output
from npudoctor.cli.check import check
from npudoctor.cli.fix import fix
from npudoctor.cli.list import list_checks
from npudoctor.cli.options import Lang, Version
from npudoctor.cli.schema import schema
from npudoctor.cli.show import show
from npudoctor.config import Refused, suggestion
from npudoctor.messages import _

# No rich, no completion: they cost start-up time on every run.
SETTINGS = {"help_option_names": ["-h", "--help"]}


class Commands(TyperGroup):
    """Names an unknown command, and the known one that comes near, in one line."""

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """The command that is meant; Refused when there is none."""
        name = str(args[0])
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = suggestion(name, set(self.list_commands(ctx)))
            raise Refused(_("no such command: {name}{suggestion}").format(name=name, suggestion=near))
        return super().resolve_command(ctx, args)


def command_line() -> Any:
    """The root command, in the language spoken now."""
    app = typer.Typer(
        cls=Commands,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings=SETTINGS,
        invoke_without_command=True,
        help=_("Can this machine train, and if not, what exactly do I type?"),
    )
    app.callback()(_evaluated(npudoctor))
    app.command("check", help=_("Judge this node; the exit status is the verdict."))(_evaluated(check))
    app.command("fix", help=_("Mend what can be mended safely; without a selection only show the plan."))(
        _evaluated(fix)
    )
    app.command("list", help=_("List all checks and their codes."))(_evaluated(list_checks))
    app.command("show", help=_("Print the manual of a check."))(_evaluated(show))
    app.command("schema", help=_("Print the JSON Schema of a document."))(_evaluated(schema))
    return typer.main.get_command(app)


def _evaluated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its hints evaluated: on Python 3.9 typer overlooks options in hints that are text."""
    hints = get_type_hints(function, include_extras=True)
    function.__annotations__ = {name: _unwrapped(hint) for name, hint in hints.items()}
    return function


def _unwrapped(hint: Any) -> Any:
    """Without the Optional that get_type_hints puts around a hint whose default is None, before 3.11."""
    inner = get_args(hint)[0] if get_origin(hint) is Union else None
    return inner if hasattr(inner, "__metadata__") else hint


def npudoctor(ctx: typer.Context, version: Version = False, lang: Lang = None) -> Optional[int]:
    """What stands before a command; alone it is a usage error, answered with the help."""
    if version:
        output.emit(f"npudoctor {__version__}\n")
        raise typer.Exit(0)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(64)
    return None
