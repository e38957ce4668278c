"""`npudoctor list`: all checks, their codes, and those that could not be loaded."""

from __future__ import annotations

import typer

from npudoctor.cli import options as o


def list_checks(ctx: typer.Context, format: o.Format = None, lang: o.Lang = None) -> int:
    """List all checks and their codes."""
    from npudoctor import registry
    from npudoctor.cli import output
    from npudoctor.cli.session import described
    from npudoctor.render.listing import listing_json, listing_text

    config = described({"format": format, "lang": lang}, ctx.obj)
    loaded = registry.load_all(ctx.obj.variables)
    if config["format"] == "json":
        output.emit(listing_json(loaded))
    else:
        output.emit(listing_text(loaded), output.terminal_encoding())
    return 0
