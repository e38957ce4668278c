"""`npudoctor fleet check`: many nodes asked at once."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Callable, Optional

import typer

from npudoctor.cli.arguments import options as o
from npudoctor.cli.config import UsageError
from npudoctor.cli.fleet.commands import Format, Nodes
from npudoctor.cli.fleet.progress import NodeProgress
from npudoctor.core.messages import _
from npudoctor.fleet.gathering import Gathering, Request

FANOUT, CONNECT_SECONDS, SECONDS = 64, 10.0, 60.0
# What the answers are read by is set here; the language is that of the reader.
_OURS = ("--format", "--output", "--lang", "-q", "--quiet", "-v", "--verbose")

On = Annotated[
    o.Text,
    o.value("-w", "NODES", _("The nodes, as node[1-512,600] or @group; default: those of the Slurm job.")),
]
Engine = Annotated[o.Text, o.value("--engine", "ssh|slurm", _("What reaches the nodes; default ssh."))]
Fanout = Annotated[
    o.Text, o.value("--fanout", "NUMBER", _("How many nodes are asked at the same time; default 64."))
]
Login = Annotated[
    o.Text, o.value("--login", "NAME", _("The user to log in as; default: as ssh is configured."))
]
Connect = Annotated[
    o.Text, o.value("--connect-timeout", "SECONDS", _("Seconds that a connection may take; default 10."))
]
NodeTimeout = Annotated[
    o.Text, o.value("--node-timeout", "SECONDS", _("Seconds that one node may take; default 60."))
]
Program = Annotated[
    o.Text,
    o.value(
        "--program", "PATH", _("npudoctor on the nodes; default: the path that it has here, else its name.")
    ),
]
Tree = Annotated[
    o.Text,
    o.value("--tree", "FILE", _("Reach the nodes through the gateways of this topology of ClusterShell.")),
]
Options = Annotated[
    o.Texts, o.argument("[-- OPTIONS OF CHECK]...", _("What check is called with on each node."))
]


def check(
    ctx: typer.Context,
    on: On = None,
    engine: Engine = None,
    fanout: Fanout = None,
    login: Login = None,
    connect_timeout: Connect = None,
    node_timeout: NodeTimeout = None,
    program: Program = None,
    tree: Tree = None,
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
    from npudoctor.fleet.nodes import InvalidNodes, expand

    wish = wish_of(format, nodes, output, lang, config, ctx.obj)
    asked = on if on is not None else ctx.obj.variables.get("SLURM_JOB_NODELIST", "")
    if not asked:
        raise UsageError(_("no nodes are named: -w NODES"))
    try:
        names = expand(asked, groups=on is not None)
    except InvalidNodes as error:
        raise UsageError(str(error)) from error
    request = Request(
        names,
        (*_program(program), "check", "--format", "json", *_checked(options or ())),
        _number("--node-timeout", node_timeout, SECONDS),
        int(_number("--fanout", fanout, FANOUT)),
        _number("--connect-timeout", connect_timeout, CONNECT_SECONDS),
        login,
        tree,
    )
    gather = _engine(engine or "ssh")
    with Delivery(wish, names) as delivery:
        progress = NodeProgress()
        gathering = Gathering(request, delivery.take)
        try:
            gather(gathering, lambda: progress.show(gathering))
        except Stopped:
            progress.clear()
            delivery.deliver()
            raise
        progress.clear()
        return delivery.deliver()


def _engine(name: str) -> Callable[[Gathering, Callable[[], None]], None]:
    if name == "ssh":
        from npudoctor.fleet import ssh

        return ssh.gather
    if name == "slurm":
        from npudoctor.fleet import slurm

        return slurm.gather
    text = _("{value!r} is not one of {choices}")
    raise UsageError("--engine: " + text.format(value=name, choices="ssh, slurm"))


def _number(option: str, value: Optional[str], default: float, most: float = 86400.0) -> float:
    try:
        number = default if value is None else float(value)
    except ValueError:
        number = math.nan
    if not 0 < number <= most:
        raise UsageError(_("{option}: {value!r} is not a number above 0").format(option=option, value=value))
    return number


def _program(path: Optional[str]) -> tuple[str, ...]:
    """The command on the nodes: most clusters share the file system that we were started from."""
    if path is not None:
        return (path,)
    own = os.path.abspath(sys.argv[0])
    if os.path.basename(own) == "__main__.py":
        return (sys.executable, "-m", "npudoctor")
    return (own,)


def _checked(options: Sequence[str]) -> Sequence[str]:
    """The options of check, without those that decide how its answer is read."""
    for option in options:
        if option.partition("=")[0] in _OURS:
            raise UsageError(_("{option} is not for the nodes: put it before --").format(option=option))
    return options
