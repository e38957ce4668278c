"""The command line as a whole: which commands there are, and what stands before them."""

from __future__ import annotations

from typing import Any, Callable, Optional

import typer

from npudoctor import __version__
from npudoctor.cli import output
from npudoctor.cli.check import check
from npudoctor.cli.fix import fix
from npudoctor.cli.list import list_checks
from npudoctor.cli.options import Lang, Version
from npudoctor.cli.parsing import Command, Group, evaluated
from npudoctor.cli.schema import schema
from npudoctor.cli.show import show
from npudoctor.messages import _

COMMANDS: dict[str, tuple[Callable[..., int], str]] = {
    "check": (check, _("Judge this node; the exit status is the verdict.")),
    "fix": (fix, _("Mend what can be mended safely; without a selection only show the plan.")),
    "list": (list_checks, _("List all checks and their codes.")),
    "show": (show, _("Print the manual of a check.")),
    "schema": (schema, _("Print the JSON Schema of a document.")),
}


def command_line() -> Any:
    """The root command, in the language spoken now."""
    # No rich and no completion: they cost start-up time on every run.
    app = typer.Typer(
        cls=Group,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        invoke_without_command=True,
        subcommand_metavar="COMMAND [ARGS]...",
        help=_("Can this machine train, and if not, what exactly do I type?"),
    )
    app.callback()(evaluated(npudoctor))
    for name, (function, text) in COMMANDS.items():
        app.command(name, cls=Command, help=text, short_help=text)(evaluated(function))
    return typer.main.get_command(app)


def npudoctor(ctx: typer.Context, version: Version = False, lang: Lang = None) -> Optional[int]:
    """What stands before a command; alone it is a usage error, answered with the help."""
    from npudoctor.cli.values import one_of

    one_of("lang", lang)
    if version:
        output.emit(f"npudoctor {__version__}\n")
        raise typer.Exit(0)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(64)
    return None
