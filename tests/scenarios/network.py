"""The networks of a machine, its firewall, and a job that is spread over two nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from npudoctor.host.network.interfaces import Interface
from npudoctor.testing import interface

from . import npu
from .system import HOME, USER

if TYPE_CHECKING:
    from .machines import Machine

OURS, PEER = "192.0.2.5", "192.0.2.6"
ROUTES = ("default eth0",)
RULES = ("nft", "-j", "list", "ruleset")
TABLE = f"{HOME}/job/hccl.json"


def interfaces() -> list[Interface]:
    """The usual ones: the network of the nodes, one for storage, and a bridge of docker that nobody uses."""
    return [
        interface("lo", "127.0.0.1/8", "::1/128", state="unknown"),
        interface("docker0", "172.17.0.1/16", state="down", kind="bridge"),
        interface("eth0", f"{OURS}/24"),
        interface("eth1", "203.0.113.5/24"),
    ]


def rules(*more: Any, policy: str = "drop") -> str:
    """A firewall that lets in what belongs together, ssh, and the other nodes; `more`: rules before these."""
    place = {"family": "inet", "table": "filter", "chain": "input"}
    base = {"family": "inet", "table": "filter", "name": "input", "type": "filter", "hook": "input"}
    nodes = {"prefix": {"addr": "192.0.2.0", "len": 24}}
    known = _match({"ct": {"key": "state"}}, ["established", "related"], "in")
    expressions = [
        *more,
        [known, {"accept": None}],
        [_match({"meta": {"key": "iifname"}}, "lo"), {"accept": None}],
        [_match({"payload": {"protocol": "tcp", "field": "dport"}}, 22), {"accept": None}],
        [
            _match({"payload": {"protocol": "ip", "field": "saddr"}}, nodes),
            {"accept": None},
        ],
    ]
    made = [{"rule": {**place, "handle": at, "expr": one}} for at, one in enumerate(expressions, 4)]
    told: list[Any] = [
        {"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
        {"table": {"family": "inet", "name": "filter", "handle": 1}},
        {"chain": {**base, "handle": 1, "prio": 0, "policy": policy}},
        *made,
    ]
    return json.dumps({"nftables": told})


def _match(left: Any, right: Any, operator: str = "==") -> dict[str, Any]:
    return {"match": {"op": operator, "left": left, "right": right}}


def of_two_nodes(machine: Machine) -> Machine:
    """The first process of a job with four ranks, two here and two on the peer, with a rank table."""
    machine.peers = (PEER,)
    machine.names = {"node1": (OURS,), "node2": (PEER,)}
    ranks = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    meeting = {"MASTER_ADDR": OURS, "MASTER_PORT": "29500"}
    table = {"RANK_TABLE_FILE": TABLE, "RANK_ID": "0", "RANK_SIZE": "4", "DEVICE_ID": "0"}
    names = {"HCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
    machine.variables.update({**meeting, **ranks, **table, **names})
    if machine.era.layout == "old":
        machine.variables["HCCL_WHITELIST_DISABLE"] = "1"  # at that time on unless it is switched off
    write_table(machine, rank_table())
    return machine


def rank_table() -> Any:
    """The table of that job."""
    servers = [
        {
            "server_id": address,
            "device": [
                {"device_id": f"{at}", "device_ip": npu.port(at, node), "rank_id": f"{2 * node + at}"}
                for at in range(2)
            ],
        }
        for node, address in enumerate((OURS, PEER))
    ]
    return {"status": "completed", "version": "1.0", "server_count": "2", "server_list": servers}


def write_table(machine: Machine, table: Any, path: str = TABLE) -> None:
    """Put a table, or a text in its place, where the job looks for it."""
    from npudoctor.testing import Node

    text = table if isinstance(table, str) else json.dumps(table, indent=1)
    machine.files[path] = Node(text.encode(), uid=USER)
    machine.variables["RANK_TABLE_FILE"] = path
