"""Faults of the network ports of the NPUs, as root sees them on a node of a job of two."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios import npu
from tests.scenarios.fault import fault
from tests.scenarios.machines import Machine
from tests.scenarios.network import of_two_nodes
from tests.scenarios.variants import of_root

NONE: Mapping[str, str] = {}


def ports(
    name: str,
    code: str,
    answers: Mapping[str, str] = NONE,
    conf: Mapping[str, str] = NONE,
    table: bool = False,
) -> None:
    """Other answers of hccn_tool, and other lines in the driver's file."""

    def breaks(machine: Machine) -> None:
        of_root(machine)
        of_two_nodes(machine)
        if not table:
            machine.unset("RANK_TABLE_FILE")
        machine.commands.update(npu.ports(**answers))
        machine.files[npu.CONF] = npu.conf(**conf)

    fault(name, f"hccn-config.{code}")(breaks)


TLS = "dev_id:1, tls switch[1](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset)\n"
ports("TLS was switched on for one NPU", "tls-differs", {"tls_1": TLS})
ports("a netmask that is none", "bad-value", conf={"netmask_1": "255.255.0.255"},
      answers={"ip_1": f"ipaddr:{npu.port(1)}\nnetmask:255.255.0.255\n"})  # fmt: skip
UNSET = {"ip_1": "", "gateway_1": "", "netdetect_1": ""}
ports("one NPU was forgotten", "no-address", UNSET,
      {"address_1": "", "netmask_1": "", "gateway_1": "", "netdetect_1": ""})  # fmt: skip
TWIN = npu.port(0)
ports("two NPUs were given one address", "duplicate-address",
      {"ip_1": f"ipaddr:{TWIN}\nnetmask:255.255.255.0\n"}, {"address_1": TWIN})  # fmt: skip
ports("the file was changed and not applied", "not-applied", conf={"address_1": "198.51.100.77"})
ports("an address was set and not saved", "not-saved", conf={"address_1": "", "netmask_1": ""})
ports("the cable of an NPU is out", "link-down",
      {"link_1": "link status: DOWN\n", "net_health_1": "net health status: Fault\n"})  # fmt: skip
ports(
    "the switch does not answer an NPU", "unhealthy", {"net_health_1": "net health status: Detect ip error\n"}
)
ports("a gateway of another network", "gateway",
      {"gateway_1": "default gateway:198.18.0.1, Iface:eth1\n"}, {"gateway_1": "198.18.0.1"})  # fmt: skip
ALL = {f"{question}_{number}": "" for question in ("ip", "gateway", "netdetect") for number in range(2)}


@fault("the ports of a new node were never set up", "hccn-config.not-set-up")
def _(machine: Machine) -> None:
    of_root(machine)
    of_two_nodes(machine).unset("RANK_TABLE_FILE")
    machine.commands.update(npu.ports(**ALL))
    machine.remove(npu.CONF)


@fault("the driver's file gives an NPU two addresses", "hccn-config.clash")
def _(machine: Machine) -> None:
    of_root(machine)
    of_two_nodes(machine).unset("RANK_TABLE_FILE")
    machine.files[npu.CONF] = npu.conf() + "address_1=198.51.100.99\n"
