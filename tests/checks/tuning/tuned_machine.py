"""A machine of two sockets with accelerators, for the tests of the advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from npudoctor import Check
from npudoctor.host.network.interfaces import Interface
from npudoctor.testing import Asked, Content, FakeNetwork, ask, fake_host, folder, interface

TWO_NODES: dict[str, Content] = {
    "/sys/devices/system/node/online": "0-1\n",
    "/sys/devices/system/node/node0/cpulist": "0-31\n",
    "/sys/devices/system/node/node1/cpulist": "32-63\n",
}
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}


def port(name: str, node: str = "0") -> dict[str, Content]:
    """What /sys says of one Ethernet card's port."""
    return {
        f"/sys/class/net/{name}/type": "1\n",
        f"/sys/class/net/{name}/device": folder(),
        f"/sys/class/net/{name}/device/numa_node": f"{node}\n",
    }


def card(name: str, *addresses: str, speed: int = 100_000, mtu: int = 1500, **more: Any) -> Interface:
    """Its interface, with what its driver says."""
    return interface(name, *addresses, speed=speed, mtu=mtu, **more)


def judge(
    check: Check,
    files: Mapping[str, Content],
    interfaces: Optional[list[Interface]] = None,
    **more: Any,
) -> Asked:
    """The answer where NPUs are expected and only these files and interfaces exist."""
    network = FakeNetwork([interface("lo", "127.0.0.1"), *(interfaces or [])])
    return ask(check, fake_host(files, **{"expect": "npu", "network": network, **more}))
