"""`npudoctor list`: list all checks, their codes, and those that could not be loaded; or the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller


def list_checks(
    caller: Caller, knowledge: o.Knowledge = False, format: o.Format = None, lang: o.Lang = None
) -> int:
    """List all checks and their codes."""
    from npudoctor.cli.arguments.settings import load_settings

    config = load_settings({"format": format, "lang": lang}, caller)
    (_list_tables if knowledge else _list_checks)(caller, config["format"])
    return 0


def _list_checks(caller: Caller, format: str) -> None:
    from npudoctor.cli.terminal.reports import deliver
    from npudoctor.registry import registry
    from npudoctor.render.listing import listing_object, listing_text

    loaded = registry.load_all(caller.variables)
    deliver(format, lambda: listing_object(loaded), lambda: listing_text(loaded))


def _list_tables(caller: Caller, format: str) -> None:
    from contextlib import closing

    from npudoctor.cli.arguments.settings import knowledge_directory
    from npudoctor.cli.terminal.reports import deliver
    from npudoctor.host import Host, Options
    from npudoctor.render.knowledge import knowledge_object, knowledge_text

    options = Options(knowledge=knowledge_directory(caller.variables))
    with closing(Host(options, variables=caller.variables)) as host:
        deliver(format, lambda: knowledge_object(host.knowledge), lambda: knowledge_text(host.knowledge))
