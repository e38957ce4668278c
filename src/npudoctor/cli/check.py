"""`npudoctor check`: judge this node; the exit status is the verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from npudoctor.cli.arguments import options as o
from npudoctor.core.messages import _

FORMATS = ("text", "json", "junit", "prometheus", "nagios", "npd")

Format = Annotated[
    o.Text,
    o.value("--format", "|".join(FORMATS), _("Output format, for people or for programs; default text.")),
]


def check(
    ctx: typer.Context,
    names: o.Names = None,
    format: Format = None,
    output: o.Output = None,
    scope: o.Scope = None,
    expect: o.Expect = None,
    profile: o.Profile = None,
    ignore: o.Ignore = None,
    fail_on: o.FailOn = None,
    deadline: o.Deadline = None,
    timeout: o.Timeout = None,
    python: o.Python = None,
    root: o.Root = None,
    env_of: o.EnvOf = None,
    source: o.Source = None,
    peers: o.Peers = None,
    wait: o.Wait = None,
    user: o.User = None,
    job: o.Job = None,
    like: o.Like = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
    verbose: o.Verbose = 0,
    quiet: o.Quiet = False,
) -> int:
    """Judge this node."""
    from npudoctor.cli.checking import check_node

    return check_node(ctx.params, ctx.obj)
