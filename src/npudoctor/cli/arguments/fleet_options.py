"""The options that commands of `fleet` share, as types."""

from __future__ import annotations

from typing import Annotated

from npudoctor.cli.arguments import options as o
from npudoctor.cli.arguments.fleet_commands import FORMATS, STATES
from npudoctor.core.messages import _

Format = Annotated[o.Text, o.value("--format", "|".join(FORMATS), _("Output format; default text."))]
Nodes = Annotated[
    o.Text,
    o.value(
        "--nodes",
        "|".join(STATES) + "[,...]",
        _("Print only the nodes in these states, for srun --exclude or --nodelist."),
    ),
]
On = Annotated[
    o.Text,
    o.value("-w", "NODES", _("The nodes, as node[1-512,600] or @group; default: those of the Slurm job.")),
]
From = Annotated[
    o.Text,
    o.value(
        "--from",
        "FILE",
        _("Read the nodes from a hostfile, an Ansible inventory or a rank table (- for stdin)."),
    ),
]
Engine = Annotated[o.Text, o.value("--engine", "ssh|slurm", _("How to reach the nodes; default ssh."))]
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
        "--program", "PATH", _("npudoctor on the nodes; default: its path on this machine, else its name.")
    ),
]
Tree = Annotated[
    o.Text,
    o.value("--tree", "FILE", _("Reach the nodes through the gateways in this ClusterShell topology.")),
]
Push = Annotated[
    bool,
    o.switch(
        "--push", help=_("Copy npudoctor as one file to nodes that do not have it, and remove it afterwards.")
    ),
]
File = Annotated[
    o.Text,
    o.value("--file", "FILE", _("The npudoctor.pyz that --push copies; default: the running one.")),
]
