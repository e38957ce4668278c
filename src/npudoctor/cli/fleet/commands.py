"""The commands of `npudoctor fleet`, and the options that they share."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from npudoctor.cli.arguments import options as o
from npudoctor.cli.arguments.parsing import Group, StrictCommand, command_function
from npudoctor.core.messages import _

COMMANDS = {
    "check": _("Check many nodes at once over ssh or Slurm, and merge their reports."),
    "fix": _("Clean up many nodes: one plan, one answer, a journal on each node."),
    "pairs": _("Try the connections between all nodes on the ports that the job will use."),
    "report": _("Merge the reports of many nodes, however they came."),
}
# What `fleet pairs` starts on each node.
HIDDEN = {"part": _("Take part in fleet pairs.")}
FORMATS = ("text", "json", "jsonl", "html", "junit", "prometheus", "csv")
STATES = ("ready", "not-ready", "undetermined", "silent")

Format = Annotated[o.Text, o.value("--format", "|".join(FORMATS), _("Output format; default text."))]
Nodes = Annotated[
    o.Text,
    o.value(
        "--nodes",
        "|".join(STATES) + "[,...]",
        _("Print only the set of these nodes, for srun --exclude or --nodelist."),
    ),
]


def add_fleet(app: typer.Typer, argv: Sequence[str], help: str) -> None:
    """Add the group to the command line; only the command that the words name is loaded."""
    group = typer.Typer(
        cls=Group,
        rich_markup_mode=None,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        subcommand_metavar="COMMAND [ARGS]...",
        no_args_is_help=False,
    )
    known = {**COMMANDS, **HIDDEN}
    for name in argv[:1] if argv[:1] and argv[0] in known else COMMANDS:
        function = getattr(import_module(f"npudoctor.cli.fleet.{name}"), name)
        text = known[name]
        group.command(name, cls=StrictCommand, help=text, short_help=text, hidden=name in HIDDEN)(
            command_function(function)
        )
    app.add_typer(group, name="fleet", cls=Group, help=help, short_help=help)
