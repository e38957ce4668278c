"""Faults of the rank table of a job on two nodes: its file, its rules, and what it says of this machine."""

from __future__ import annotations

import json
from typing import Any, Callable

from tests.scenarios import network, npu
from tests.scenarios.fault import Where, anywhere, fault, kind
from tests.scenarios.machines import Machine
from tests.scenarios.network import TABLE, of_two_nodes, rank_table, write_table

from npudoctor.testing import device, link, unreadable

Change = Callable[[Any], None]
TORCH = kind("torch", "vllm")


def wrong(name: str, code: str, where: Where = anywhere) -> Callable[[Change], Change]:
    """A fault in what the table says."""

    def add(change: Change) -> Change:
        def breaks(machine: Machine) -> None:
            of_two_nodes(machine)
            told = rank_table()
            change(told)
            write_table(machine, told)

        fault(name, f"rank-table.{code}", where)(breaks)
        return change

    return add


def listed(told: Any, node: int = 0) -> Any:
    """The devices of one node."""
    return told["server_list"][node]["device"]


@fault("the job's script waits for a rank table that nobody wrote", "rank-table.missing")
def _(machine: Machine) -> None:
    of_two_nodes(machine)
    machine.remove(TABLE)


@fault("the rank table is of root alone", "rank-table.unreadable")
def _(machine: Machine) -> None:
    of_two_nodes(machine).files[TABLE] = unreadable()


@fault("the comments of the document are still in the rank table", "rank-table.not-json")
def _(machine: Machine) -> None:
    of_two_nodes(machine)
    write_table(machine, json.dumps(rank_table(), indent=1).replace('"version"', '// template\n"version"'))


@fault("the rank table was cut off when the disk was full", "rank-table.not-json")
def _(machine: Machine) -> None:
    of_two_nodes(machine)
    write_table(machine, json.dumps(rank_table())[:300])


@wrong("Kubernetes has not filled in the rank table yet", "initializing")
def _(told: Any) -> None:
    told["status"] = "initializing"
    del told["server_list"], told["server_count"]


@wrong("numbers instead of strings in the rank table", "bad-value")
def _(told: Any) -> None:
    for one in listed(told):
        one["rank_id"] = int(one["rank_id"])


@wrong("a name where the rank table wants an address", "bad-value")
def _(told: Any) -> None:
    listed(told, 1)[0]["device_ip"] = "npu0.node2"


@wrong("a server was added and server_count was not", "wrong-count")
def _(told: Any) -> None:
    told["server_count"] = "1"


@fault("the laboratory's table has three devices on a node", "rank-table.device-counts")
def _(machine: Machine) -> None:
    of_two_nodes(machine)
    machine.unset("WORLD_SIZE", "RANK_SIZE", "LOCAL_WORLD_SIZE")
    machine.files["/dev/davinci2"] = device(0o660, npu.GROUP)
    machine.npu_smi = npu.screen(machine.era, chips=3)
    own = [{"device_id": f"{at}", "device_ip": npu.port(at)} for at in range(3)]
    instances = [{"rank_id": one["device_id"], "server_id": network.OURS, "devices": [one]} for one in own]
    group = {"group_name": "g", "device_num": "3", "server_num": "1", "instance_count": "3"}
    group["instance_list"] = instances  # type: ignore[assignment]
    lab = {"deploy_mode": "lab", "board_id": "0x0000", "group_count": "1", "group_list": [group]}
    lab.update(status="completed", para_plane_nic_location="device")
    write_table(machine, lab)


@wrong("two tables were joined and a rank is there twice", "rank-ids")
def _(told: Any) -> None:
    listed(told, 1)[0]["rank_id"] = "1"


@wrong("the addresses of node 1 were copied to node 2", "repeated")
def _(told: Any) -> None:
    for mine, other in zip(listed(told), listed(told, 1)):
        other["device_ip"] = mine["device_ip"]


@wrong("a table for two nodes without device_ip", "no-address")
def _(told: Any) -> None:
    for node in range(2):
        for one in listed(told, node):
            del one["device_ip"]


@wrong("a super pod names a server that is not in the list", "super-pods")
def _(told: Any) -> None:
    told["version"] = "1.2"
    pods(told)[0]["server_list"][1]["server_id"] = "node9"


def pods(told: Any) -> Any:
    """Both servers in one super pod."""
    number = 0
    for node in range(2):
        for one in listed(told, node):
            one["super_device_id"], number = str(number), number + 1
    servers = [{"server_id": server["server_id"]} for server in told["server_list"]]
    told["super_pod_list"] = [{"super_pod_id": "0", "server_list": servers}]
    return told["super_pod_list"]


@fault("the rank is beyond the rank table", "rank-table.rank-id")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables["RANK_ID"] = "4"
    machine.unset("RANK")
    machine.unset("RANK_SIZE")


@fault("the rank table of yesterday's nodes", "rank-table.not-this-host")
def _(machine: Machine) -> None:
    of_two_nodes(machine)
    machine.unset("RANK", "RANK_ID")
    told = rank_table()
    for node, server in enumerate(told["server_list"]):
        server["server_id"] = f"192.0.2.{77 + node}"
        for at, one in enumerate(server["device"]):
            one["device_ip"] = npu.port(at, node + 5)
    write_table(machine, told)


@wrong("the addresses of two NPUs are exchanged in the rank table", "wrong-address")
def _(told: Any) -> None:
    one, other = listed(told)
    one["device_ip"], other["device_ip"] = other["device_ip"], one["device_ip"]


@wrong("the rank table counts devices from 6", "no-device")
def _(told: Any) -> None:
    for at, one in enumerate(listed(told)):
        one["device_id"] = str(6 + at)


@fault("the rank table is a link into a config map", "rank-table.symbolic-link", TORCH)
def _(machine: Machine) -> None:
    of_two_nodes(machine)
    real = f"{TABLE.rpartition('/')[0]}/..data.json"
    machine.files[real] = machine.files[TABLE]
    machine.files[TABLE] = link(real)


@fault("the rank table is called hccl.txt", "rank-table.not-named-json")
def _(machine: Machine) -> None:
    write_table(of_two_nodes(machine), rank_table(), TABLE.replace(".json", ".txt"))


@fault("two variables name two rank tables", "rank-table.two-tables")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables["MINDSPORE_HCCL_CONFIG_PATH"] = "/data/old/hccl.json"
    machine.files["/data/old/hccl.json"] = machine.files[TABLE]
