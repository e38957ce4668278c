"""Machines on which hccn-config says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.network.hccn_config import hccn_config
from npudoctor.testing import Asked, ask, device, fake_host, unreadable

from ..checks.network.hccn_standin import Tool  # noqa: TID252
from ..checks.network.test_hccn_config import CONTAINER, PEERS, card, file, nodes  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(hccn_config, fake_host())
    yield ask(hccn_config, fake_host(nodes(0)))
    yield ask(hccn_config, fake_host({**nodes(0), **card("0xd500")}))
    twice = "address_0=192.0.2.1\naddress_0=192.0.2.2\naddress_1=nowhere\n"
    yield ask(hccn_config, fake_host({**nodes(0, 1), "/etc/hccn.conf": twice}))
    yield from _tools(tmp)


def _tools(tmp: Path) -> Iterator[Asked]:
    tool = Tool(tmp / "ill")
    tool.says(1, "ip", "ipaddr:198.51.100.10\nnetmask:255.255.255.0")
    tool.says(2, "ip", "")
    tool.says(3, "gateway", "default gateway:203.0.113.1, Iface:eth3")
    tool.says(4, "link", "link status: DOWN")
    tool.says(4, "net_health", "net health status: Fault")
    tool.says(5, "tls", "dev_id:5, tls switch[1](0:disable, 1:enable)")
    tool.does(6, "tls", "exec sleep 1000\n")
    tool.does(7, "link", "yes\n")
    tool.does(7, "tls", "exit 3\n")
    yield ask(hccn_config, tool.host(file(address_7="198.51.100.70", netmask_6="x"), timeout=2.5))
    for more in ({"euid": 1000}, {"files": card("0xd806")}, {"files": {"/etc/hccn.conf": unreadable()}}):
        yield ask(hccn_config, tool.host(timeout=2.5, **more))
    yield ask(hccn_config, tool.host(file(address_3=""), timeout=2.5))
    for number in range(8):
        tool.says(number, "ip", "")
    yield ask(hccn_config, tool.host(peers=PEERS, timeout=2.5))
    gone = Tool(tmp / "gone", [0])
    host = gone.host({**CONTAINER, "/dev/davinci1": device()})
    gone.place.unlink()
    yield ask(hccn_config, host)
