"""`npudoctor undo`: take back what a run of `fix` did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from npudoctor.cli.arguments import options as o
from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.fixing.history import FixRun

_RUN = _(
    "A run listed by `npudoctor history`, or the start of its name; default: the newest that can be undone."
)
Name = Annotated[o.Text, o.argument("[RUN]", _RUN)]
Yes = Annotated[bool, o.switch("--yes", "-y", help=_("Do not ask."))]


def undo(
    ctx: typer.Context,
    run: Name = None,
    dry_run: o.DryRun = False,
    yes: Yes = False,
    format: o.Format = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Take back what a run of fix did, where it can be taken back.

    Status 1: something of it is not undone; 0: all of it is, or there was nothing to undo.
    """
    from npudoctor.cli.own_records import own_machine, own_runs
    from npudoctor.cli.session import load_settings
    from npudoctor.cli.terminal.answers import confirm, deliver_fix, show
    from npudoctor.fixing.plan import FixRequest
    from npudoctor.fixing.undoing import UndoContext
    from npudoctor.fixing.undoing import undo as take_back

    settings = load_settings({"format": format, "lang": lang, "config": config}, ctx.obj)
    with own_machine(ctx.obj) as host:
        chosen = _find_run(own_runs(host), run)
        request = FixRequest(("undo",), dry_run=dry_run, yes=yes)
        context = UndoContext(host.again, confirm)
        report = take_back(chosen, request, context, lambda items: None if dry_run else show(items))
    deliver_fix(report, settings["format"])
    return report.exit_code


def _find_run(runs: Sequence[FixRun], name: Optional[str]) -> Optional[FixRun]:
    """The run of this name, or the newest that can be undone; where none can, the newest of which something
    lasts, so that it is said why. UsageError for no such run, or several."""
    from npudoctor.cli.config import UsageError, suggestion
    from npudoctor.fixing.undoing import newest_lasting, newest_undoable, runs_named

    if name is None:
        return newest_undoable(runs) or newest_lasting(runs)
    matches = runs_named(runs, name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(run.name for run in matches[:5])
        raise UsageError(_("{name} may mean several runs: {names}").format(name=name, names=names))
    near = suggestion(name, {run.name for run in runs}) or _("; see `npudoctor history`")
    raise UsageError(_("no such run: {name}{suggestion}").format(name=name, suggestion=near))
