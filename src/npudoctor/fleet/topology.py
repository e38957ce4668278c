"""Reads the topology of --tree: the gateways through which ClusterShell reaches the nodes."""

from __future__ import annotations

import configparser
import socket
from typing import Any

from npudoctor.core.messages import _
from npudoctor.core.optional import load

LONGEST = 1 << 20  # bytes; one of 10,000 nodes has some hundred


class InvalidTopology(ValueError):
    """The text is not a ClusterShell topology for this machine; str() of the error is one line for people."""


def parse_topology(content: bytes) -> Any:
    """The TopologyTree with this machine as its root. Raises InvalidTopology when the file describes none."""
    nodes, topology = load("ClusterShell.NodeSet"), load("ClusterShell.Topology")
    parser, graph = configparser.ConfigParser(), topology.TopologyGraph()
    # configparser would lower-case the node names.
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(content.decode("utf-8"))
        # [Main] is the section's name in older topology files, which ClusterShell still reads.
        section = next((name for name in ("routes", "Main") if parser.has_section(name)), None)
        if section is None:
            raise InvalidTopology(_("not a ClusterShell topology: it has no section [routes]"))
        for source, destination in parser.items(section):
            gateways, targets = nodes.NodeSet(source), nodes.NodeSet(destination)
            if gateways and targets:  # a group may have no nodes
                graph.add_route(gateways, targets)
        return graph.to_tree(socket.gethostname().partition(".")[0])
    except (configparser.Error, topology.TopologyError, nodes.NodeSetException, UnicodeDecodeError) as error:
        raise InvalidTopology(
            _("not a ClusterShell topology: {why}", why=" ".join(str(error).split())[:200])
        ) from error
