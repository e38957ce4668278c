"""`npudoctor diff`: compare two snapshots; the exit code tells whether they are equal."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from npudoctor.cli.config import UsageError
from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller


def diff(
    caller: Caller,
    first: Annotated[
        o.Text, o.argument("A", _("A snapshot, or a report as JSON; - reads standard input."))
    ] = None,
    second: Annotated[o.Text, o.argument("B", _("The snapshot or report to compare it with."))] = None,
    format: o.Format = None,
    output: o.Output = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Compare two snapshots; returns 0: equal, 1: different, 2: something that may differ is unknown."""
    from npudoctor.cli.arguments.paths import resolve_output
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.arguments.snapshot_file import read_snapshot
    from npudoctor.cli.terminal.reports import deliver
    from npudoctor.facts.snapshot.compare import compare
    from npudoctor.host.fs.files import Files, LocalDisk
    from npudoctor.render.diff import diff_object, diff_text

    settings = load_settings(caller.parameters, caller)
    if first is None or second is None:
        raise UsageError(_("two snapshots are needed: npudoctor diff A B"))
    if first == second == "-":
        raise UsageError(_("only one of the two can be read from standard input"))
    with closing(LocalDisk()) as disk:
        target = resolve_output(output, Files(disk))
    sides = (read_snapshot(first, "A"), read_snapshot(second, "B"))
    comparison, names = compare(*sides), (first, second)
    deliver(
        settings["format"],
        lambda: diff_object(names, sides, comparison),
        lambda: diff_text(names, sides, comparison),
        target,
    )
    return comparison.exit_code
