"""hccl-interface: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.network.hccl_interface import hccl_interface as check
from npudoctor.host.network.network import Network
from npudoctor.testing import Asked, FakeNetwork, ask, device, fake_host, interface

SEVERAL = {"MASTER_ADDR": "192.0.2.9"}
VALUES = (
    "",
    "192.0.2.1 172.17.0.1",
    "eth0",
    "“192.0.2.1”",
    "192.0.2.77",
    "192.168.7.1",
    "172.17.0.1",
    "198.51.100.1",
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code."""
    there = [
        interface("lo", "127.0.0.1/8"),
        interface("eth0", "192.0.2.1/24"),
        interface("data0", "198.51.100.1/24"),
        interface("off0", "192.168.7.1/24", up=False),
        interface("docker0", "172.17.0.1/16"),
    ]
    for value in VALUES:
        given = {**SEVERAL, "HCCL_IF_IP": value}
        yield ask(check, fake_host(variables=given, network=FakeNetwork(there), expect="npu"))
    given = {**SEVERAL, "HCCL_IF_IP": "192.0.2.1", "HCCL_SOCKET_IFNAME": "data0"}
    nowhere = Network(lambda: there, lambda *_asked: None)
    yield ask(check, fake_host(variables=given, network=nowhere, expect="npu"))
    yield ask(check, fake_host({"/dev/nvidia0": device()}, variables=given))
    yield ask(check, fake_host())
