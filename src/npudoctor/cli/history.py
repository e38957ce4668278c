"""`npudoctor history`: what earlier runs of `fix` and `undo` did."""

from __future__ import annotations

import typer

from npudoctor.cli.arguments import options as o


def history(
    ctx: typer.Context, format: o.Format = None, lang: o.Lang = None, config: o.ConfigFile = None
) -> int:
    """Show what earlier runs did, and what of it can be undone."""
    from npudoctor.cli.own_records import own_machine, own_runs
    from npudoctor.cli.session import load_settings
    from npudoctor.cli.terminal import output

    settings = load_settings({"format": format, "lang": lang, "config": config}, ctx.obj)
    with own_machine(ctx.obj) as host:
        runs = own_runs(host)
    if settings["format"] == "json":
        from npudoctor.render.history import history_object
        from npudoctor.render.json_text import json_text

        output.emit(json_text(history_object(runs)))
    else:
        from npudoctor.render.history import history_text

        output.emit(history_text(runs), output.terminal_encoding())
    return 0
