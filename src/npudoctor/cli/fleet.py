"""`npudoctor fleet report`: the reports of many nodes as one."""

from __future__ import annotations

from typing import Annotated

import typer

from npudoctor.cli.arguments import options as o
from npudoctor.core.messages import _

FORMATS = ("text", "json", "html", "junit", "prometheus", "csv")
STATES = ("ready", "not-ready", "undetermined", "silent")

Action = Annotated[str, o.argument("report", _("What to do: merge reports."))]
Files = Annotated[o.Texts, o.argument("FILES|-...", _("Reports as files, folders or a stream (-)."))]
FleetFormat = Annotated[o.Text, o.value("--format", "|".join(FORMATS), _("Output format; default text."))]
Nodes = Annotated[
    o.Text,
    o.value(
        "--nodes", "|".join(STATES), _("Print only the set of these nodes, for srun --exclude or --nodelist.")
    ),
]
Expected = Annotated[
    o.Text,
    o.value("-w", "NODES", _("Nodes that must have answered; default: those of SLURM_JOB_NODELIST.")),
]


def fleet(
    ctx: typer.Context,
    action: Action,
    files: Files = None,
    nodes: Nodes = None,
    expected: Expected = None,
    format: FleetFormat = None,
    output: o.Output = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Merge the reports of many nodes."""
    from npudoctor.cli.config import UsageError
    from npudoctor.cli.fleet_report import ReportRequest, report_fleet
    from npudoctor.cli.session import load_settings

    if action != "report":
        raise UsageError(
            _("no such command: {name}{suggestion}").format(name=f"fleet {action}", suggestion="")
        )
    for option, value, choices in (("--format", format, FORMATS), ("--nodes", nodes, STATES)):
        if value is not None and value not in choices:
            text = _("{value!r} is not one of {choices}")
            raise UsageError(f"{option}: " + text.format(value=value, choices=", ".join(choices)))
    own = format if format in ("text", "json") else None
    settings = load_settings({"format": own, "lang": lang, "config": config}, ctx.obj)
    return report_fleet(
        ReportRequest(
            tuple(files or ()), format or settings["format"], nodes, expected, output, ctx.obj.variables
        )
    )
