"""`npudoctor diff`: two snapshots side by side; the exit status says whether they are alike."""

from __future__ import annotations

from typing import Annotated

import typer

from npudoctor.cli.arguments import options as o
from npudoctor.cli.config import UsageError
from npudoctor.core.messages import _

First = Annotated[o.Text, o.argument("A", _("A snapshot, or a report as JSON; - reads standard input."))]
Second = Annotated[o.Text, o.argument("B", _("What it is compared with."))]


def diff(
    ctx: typer.Context,
    first: First = None,
    second: Second = None,
    format: o.Format = None,
    output: o.Output = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Compare two snapshots: 0 alike, 1 different, 2 when something that may differ is unknown."""
    from npudoctor.cli.arguments.paths import writable
    from npudoctor.cli.session import load_settings
    from npudoctor.cli.snapshots import read_snapshot
    from npudoctor.cli.terminal.reports import deliver
    from npudoctor.facts.snapshot.compare import compare
    from npudoctor.host.fs.files import Files, LocalDisk
    from npudoctor.render.diff_json import diff_object
    from npudoctor.render.diff_text import diff_text

    settings = load_settings(ctx.params, ctx.obj)
    if first is None or second is None:
        raise UsageError(_("two snapshots are needed: npudoctor diff A B"))
    if first == second == "-":
        raise UsageError(_("only one of the two can be read from standard input"))
    disk = LocalDisk()
    try:
        target = writable(output, Files(disk))
    finally:
        disk.close()
    sides = (read_snapshot(first, "A"), read_snapshot(second, "B"))
    comparison, names = compare(*sides), (first, second)
    deliver(
        settings["format"],
        lambda: diff_object(names, sides, comparison),
        lambda: diff_text(names, sides, comparison),
        target,
    )
    return comparison.exit_code
