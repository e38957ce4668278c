"""Faults of a rank table that may go well, and variables that do not fit it."""

from __future__ import annotations

from typing import Any

from tests.scenarios.fault import fault
from tests.scenarios.faults.rank_table import listed, pods, wrong
from tests.scenarios.machines import Machine
from tests.scenarios.network import of_two_nodes, rank_table, write_table


@wrong("the ranks go round over the nodes", "split-ranks")
def _(told: Any) -> None:
    for node in range(2):
        for at, one in enumerate(listed(told, node)):
            one["rank_id"] = str(2 * at + node)


@wrong("two ranks were given one NPU", "shared-device")
def _(told: Any) -> None:
    for one in listed(told, 1):
        one["device_id"], one["device_ip"] = "0", listed(told, 1)[0]["device_ip"]


@wrong("one host_port for both devices", "shared-port")
def _(told: Any) -> None:
    for one in listed(told, 1):
        one["host_port"] = "16700"


@fault("the backup of an NPU is one of another card", "rank-table.backup")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables["HCCL_OP_RETRY_ENABLE"] = "L0:0,L1:1,L2:1"
    told = rank_table()
    told["version"] = "1.2"
    pods(told)
    listed(told)[0]["backup_device_ip"] = listed(told, 1)[0]["device_ip"]
    write_table(machine, told)


@fault("RANK_SIZE is that of one node", "rank-table.rank-size")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables["RANK_SIZE"] = "2"


@fault("DEVICE_ID is that of the neighbour", "rank-table.device-id")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables["DEVICE_ID"] = "1"


@fault("host_ip is of the machine that was here before", "rank-table.host-address")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables["HCCL_OP_RETRY_ENABLE"] = "L0:0,L1:1,L2:1"
    told = rank_table()
    told["server_list"][0]["host_ip"] = "192.0.2.99"
    write_table(machine, told)
