"""`npudoctor history`: list earlier runs of `fix` and `undo`, or show everything that one run did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller


def history(
    caller: Caller,
    run: Annotated[
        o.Text, o.argument("[RUN]", _("Show all that this run did; the start of its name is enough."))
    ] = None,
    number: Annotated[
        o.Text, o.value("--number", "N", _("Only the newest N runs; default all."), "-n")
    ] = None,
    format: o.Format = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """List earlier runs, or show one run and what of it can be undone."""
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.own_records import find_run, list_own_runs, open_own_machine
    from npudoctor.cli.terminal import output
    from npudoctor.cli.terminal.reports import deliver, style_for
    from npudoctor.render.history import history_object, history_text, run_text

    settings = load_settings({"format": format, "lang": lang, "config": config}, caller)
    count = _parse_count(number)
    with open_own_machine(caller) as host:
        runs = list_own_runs(host)
    if run is not None:
        chosen = find_run(runs, run)
        deliver(settings["format"], lambda: history_object([chosen]), lambda: run_text(chosen))
        return 0
    shown = runs[:count]
    style_for(None)  # sets the width of the lines
    deliver(settings["format"], lambda: history_object(shown), lambda: history_text(shown))
    if shown and settings["format"] == "text" and output.is_terminal():
        output.complain(_("details of one run: {command}", command="npudoctor history RUN"))
    return 0


def _parse_count(number: Optional[str]) -> Optional[int]:
    """The number of runs to show; None for all. Raises UsageError when it is not a positive whole number."""
    from npudoctor.cli.config import UsageError

    if number is None:
        return None
    # isdigit() alone accepts superscripts, which int() rejects.
    if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number)):
        raise UsageError(_("-n: {value!r} is not a positive whole number", value=number))
    return int(number)
