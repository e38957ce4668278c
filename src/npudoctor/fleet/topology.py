"""The topology of --tree: through which gateways ClusterShell reaches the nodes."""

from __future__ import annotations

import configparser
import socket
from typing import Any

from npudoctor.core.messages import _
from npudoctor.core.optional import load

LONGEST = 1 << 20  # bytes; one of 10,000 nodes has some hundred


class InvalidTopology(ValueError):
    """The text is not a topology of ClusterShell for this machine. The text is one line."""


def tree_of(content: bytes) -> Any:
    """The TopologyTree, with this machine as its root; InvalidTopology where there is none."""
    nodes, topology = load("ClusterShell.NodeSet"), load("ClusterShell.Topology")
    parser, graph = configparser.ConfigParser(), topology.TopologyGraph()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of nodes, as they are
    try:
        parser.read_string(content.decode("utf-8"))
        section = next((name for name in ("routes", "Main") if parser.has_section(name)), None)
        if section is None:
            raise InvalidTopology(_("not a ClusterShell topology: it has no section [routes]"))
        for source, destination in parser.items(section):
            gateways, reached = nodes.NodeSet(source), nodes.NodeSet(destination)
            if gateways and reached:  # a group may have no nodes
                graph.add_route(gateways, reached)
        return graph.to_tree(socket.gethostname().partition(".")[0])
    except (configparser.Error, topology.TopologyError, nodes.NodeSetException, UnicodeDecodeError) as error:
        raise InvalidTopology(
            _("not a ClusterShell topology: {why}", why=" ".join(str(error).split())[:200])
        ) from error
