"""The root of the command line: the list of commands, and the options before them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Optional

import typer

from npudoctor import __version__
from npudoctor.cli.arguments import fleet_commands as commands
from npudoctor.cli.arguments.options import Color, Lang, Version
from npudoctor.cli.arguments.parsing import (
    CommandGroup,
    StrictCommand,
    WrapperCommand,
    evaluate_hints,
    make_command_function,
)
from npudoctor.cli.config import parse_flag
from npudoctor.cli.terminal import output
from npudoctor.cli.terminal.reports import choose_color
from npudoctor.core.messages import _

COMMANDS = {
    "check": _("Check this node; the exit status is the verdict."),
    "fix": _("Fix what is safe to fix; without a selection only show the plan."),
    "undo": _("Undo a run of fix, as far as it can be undone."),
    "history": _("List earlier runs of fix, newest first, or show everything that one run did."),
    "env": _('Print the export lines, for eval "$(npudoctor env)".'),
    "run": _("Check, set the environment and start the job; exits with the job's status."),
    "explain": _("Explain the log of a failed job or a code, and say what to do."),
    "fleet": _("Check many nodes, or merge their reports: which are ready, and what is wrong on each."),
    "rehearse": _("Simulate a faulty machine, then check, fix and recheck it; this machine is not changed."),
    "snapshot": _("Record all facts about this node, to compare them or to paste them into an issue."),
    "diff": _("Compare two snapshots; exits with 1 when they differ, 2 when something is unknown."),
    "list": _("List all checks and their codes."),
    "show": _("Print the manual of a check."),
    "schema": _("Print the JSON Schema of a document."),
    "completion": _("Print the Tab completion script for bash, zsh or fish."),
}
FUNCTIONS = {"list": "list_checks"}  # a function called list would hide the builtin
CLASSES = {"run": WrapperCommand}


def build_command_line(argv: Sequence[str] = ()) -> Any:
    """Build the root command in the current language; only the command that `argv` names is imported."""
    title = _("Can this machine train? If not, which commands fix it?")
    app = _make_group(help=title, invoke_without_command=True)
    npudoctor.__annotations__.update(evaluate_hints(npudoctor))
    app.callback()(npudoctor)
    for name in argv[:1] if argv[:1] and argv[0] in COMMANDS else COMMANDS:
        if name != "fleet":
            _add_command(app, (name,), COMMANDS[name])
            continue
        fleet, subcommands = _make_group(), {**commands.COMMANDS, **commands.HIDDEN}
        for subcommand in argv[1:2] if argv[1:2] and argv[1] in subcommands else commands.COMMANDS:
            _add_command(fleet, (name, subcommand), subcommands[subcommand])
        app.add_typer(fleet, name=name, cls=CommandGroup, help=COMMANDS[name], short_help=COMMANDS[name])
    return typer.main.get_command(app)


def _make_group(**settings: Any) -> typer.Typer:
    """A group of commands, without rich and without typer's completion: both cost time in every start."""
    return typer.Typer(
        cls=CommandGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        subcommand_metavar="COMMAND [ARGS]...",
        **settings,
    )


def _add_command(app: typer.Typer, words: tuple[str, ...], help: str) -> None:
    module, function = locate_command(words)
    hidden = words[-1] in commands.HIDDEN
    app.command(
        words[-1], cls=CLASSES.get(words[-1], StrictCommand), help=help, short_help=help, hidden=hidden
    )(make_command_function(getattr(import_module(module), function)))


def locate_command(words: Sequence[str]) -> tuple[str, str]:
    """Module and function name of a command: each command has a file of its own."""
    return ".".join(("npudoctor.cli", *words)), FUNCTIONS.get(words[-1], words[-1])


def npudoctor(
    ctx: typer.Context, version: Version = False, color: Color = None, lang: Lang = None
) -> Optional[int]:
    """Handle the options before a command; without a command, print the help and exit with 64 (EX_USAGE)."""
    if color is not None:
        choose_color(color)
    parse_flag("lang", lang)
    if version:
        output.emit(f"npudoctor {__version__}\n")
        raise typer.Exit(0)
    if ctx.invoked_subcommand is None:
        from npudoctor.cli.advice import advice_text

        output.redirect_stdout()
        usage, title = ctx.get_help().rstrip("\n"), _("Next steps on this machine:")
        output.write_stderr(f"{usage}\n\n{title}\n{advice_text(ctx.obj.variables)}")
        raise typer.Exit(64)
    return None
