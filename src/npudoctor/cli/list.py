"""`npudoctor list`: all checks, their codes, and what could not be loaded; or the tables they use."""

from __future__ import annotations

import typer

from npudoctor.cli.arguments import options as o


def list_checks(
    ctx: typer.Context, knowledge: o.Knowledge = False, format: o.Format = None, lang: o.Lang = None
) -> int:
    """List all checks and their codes."""
    if knowledge:
        return _list_knowledge(ctx, format, lang)
    from npudoctor.cli.session import load_settings
    from npudoctor.cli.terminal import output
    from npudoctor.registry import registry
    from npudoctor.render.listing import listing_json, listing_text

    config = load_settings({"format": format, "lang": lang}, ctx.obj)
    loaded = registry.load_all(ctx.obj.variables)
    if config["format"] == "json":
        output.emit(listing_json(loaded))
    else:
        output.emit(listing_text(loaded), output.terminal_encoding())
    return 0


def _list_knowledge(ctx: typer.Context, format: o.Format, lang: o.Lang) -> int:
    from npudoctor.cli.session import knowledge_directory, load_settings
    from npudoctor.cli.terminal import output
    from npudoctor.host import Host, Options
    from npudoctor.render.knowledge import knowledge_json, knowledge_text

    config = load_settings({"format": format, "lang": lang}, ctx.obj)
    host = Host(Options(knowledge=knowledge_directory(ctx.obj.variables)), variables=ctx.obj.variables)
    try:
        if config["format"] == "json":
            output.emit(knowledge_json(host.knowledge))
        else:
            output.emit(knowledge_text(host.knowledge), output.terminal_encoding())
    finally:
        host.close()
    return 0
