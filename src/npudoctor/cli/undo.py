"""`npudoctor undo`: undo what a run of `fix` did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller

_RUN = _(
    "A run listed by `npudoctor history`, or the start of its name; default: the newest that can be undone."
)


def undo(
    caller: Caller,
    run: Annotated[o.Text, o.argument("[RUN]", _RUN)] = None,
    dry_run: o.DryRun = False,
    yes: Annotated[bool, o.switch("--yes", "-y", help=_("Do not ask."))] = False,
    format: o.Format = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Undo what a run of fix did, as far as it can be undone.

    Returns 1 when something is not undone; 0 when all is, or there was nothing to undo.
    """
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.own_records import find_run, list_own_runs, open_own_machine
    from npudoctor.cli.terminal.answers import confirm, deliver_fix, show_plan
    from npudoctor.fixing.plan import FixRequest
    from npudoctor.fixing.undoing import UndoContext, find_newest_lasting, newest_undoable
    from npudoctor.fixing.undoing import undo as take_back

    settings = load_settings({"format": format, "lang": lang, "config": config}, caller)
    with open_own_machine(caller) as host:
        runs = list_own_runs(host)
        # When no run can be undone, show the newest one with lasting changes, and why they cannot be.
        newest = newest_undoable(runs) or find_newest_lasting(runs)
        chosen = newest if run is None else find_run(runs, run)
        request = FixRequest(("undo",), dry_run=dry_run, yes=yes)
        context = UndoContext(host.fresh_copy, confirm)
        report = take_back(chosen, request, context, lambda items: None if dry_run else show_plan(items))
    deliver_fix(report, settings["format"])
    return report.exit_code
