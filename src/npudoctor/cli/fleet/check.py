"""`npudoctor fleet check`: check many nodes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from npudoctor.cli.config import UsageError
from npudoctor.cli.fleet import asking as a
from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import fleet_options as f
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller

# Options that must not be passed to the nodes: the reports are read as JSON, and printed here.
_OURS = ("--format", "--output", "--lang", "-q", "--quiet", "-v", "--verbose")


def check(
    caller: Caller,
    on: f.On = None,
    source: f.From = None,
    engine: f.Engine = None,
    fanout: f.Fanout = None,
    login: f.Login = None,
    connect_timeout: f.Connect = None,
    node_timeout: f.NodeTimeout = None,
    program: f.Program = None,
    tree: f.Tree = None,
    push: f.Push = False,
    file: f.File = None,
    nodes: f.Nodes = None,
    format: f.Format = None,
    output: o.Output = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
    options: Annotated[
        o.Texts, o.argument("[-- OPTIONS OF CHECK]...", _("Options passed to check on each node."))
    ] = None,
) -> int:
    """Check many nodes at once."""
    from npudoctor.cli.fleet.delivery import Delivery, parse_output_request
    from npudoctor.cli.terminal.signals import StoppedBySignal
    from npudoctor.fleet.reading import parse_report_answer

    request = parse_output_request(format, nodes, output, lang, config, caller)
    target = a.parse_target(caller.parameters, caller)
    for option in options or ():
        if option.partition("=")[0] in _OURS:
            raise UsageError(_("{option} cannot be passed to the nodes: put it before --", option=option))
    words = ("check", "--format", "json", *(options or ()))
    with Delivery(request, target.nodes, target.engine) as delivery:
        try:
            target.ask(words, lambda answer: delivery.take(parse_report_answer(answer)))
        except StoppedBySignal:
            delivery.deliver()
            raise
        return delivery.deliver()
