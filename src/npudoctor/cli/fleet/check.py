"""`npudoctor fleet check`: many nodes asked at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from npudoctor.cli.arguments import options as o
from npudoctor.cli.config import UsageError
from npudoctor.cli.fleet import asking as a
from npudoctor.cli.fleet.commands import Format, Nodes
from npudoctor.core.messages import _

# What the answers are read by is set here; the language is that of the reader.
_OURS = ("--format", "--output", "--lang", "-q", "--quiet", "-v", "--verbose")

Options = Annotated[
    o.Texts, o.argument("[-- OPTIONS OF CHECK]...", _("What check is called with on each node."))
]


def check(
    ctx: typer.Context,
    on: a.On = None,
    source: a.From = None,
    engine: a.Engine = None,
    fanout: a.Fanout = None,
    login: a.Login = None,
    connect_timeout: a.Connect = None,
    node_timeout: a.NodeTimeout = None,
    program: a.Program = None,
    tree: a.Tree = None,
    push: a.Push = False,
    file: a.File = None,
    nodes: Nodes = None,
    format: Format = None,
    output: o.Output = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
    options: Options = None,
) -> int:
    """Check many nodes at once."""
    from npudoctor.cli.fleet.delivery import Delivery, wish_of
    from npudoctor.cli.terminal.signals import Stopped
    from npudoctor.fleet.reading import report_in

    wish = wish_of(format, nodes, output, lang, config, ctx.obj)
    asking = a.asking_of(ctx.params, ctx.obj)
    words = ("check", "--format", "json", *_checked(options or ()))
    with Delivery(wish, asking.nodes, asking.engine) as delivery:
        try:
            asking.ask(words, lambda answer: delivery.take(report_in(answer)))
        except Stopped:
            delivery.deliver()
            raise
        return delivery.deliver()


def _checked(options: Sequence[str]) -> Sequence[str]:
    """The options of check, without those that decide how its answer is read."""
    for option in options:
        if option.partition("=")[0] in _OURS:
            raise UsageError(_("{option} is not for the nodes: put it before --", option=option))
    return options
