"""socket-interfaces: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.network.socket_interfaces import socket_interfaces as check
from npudoctor.testing import Asked, FakeNetwork, ask, fake_host, interface

SEVERAL = {"MASTER_ADDR": "192.0.2.9"}
HCCL, GLOO = "HCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"
VARIABLES: tuple[dict[str, str], ...] = (
    {HCCL: "eth0,"},
    {HCCL: "“eth0”", GLOO: "=eth0"},
    {HCCL: "bond0", GLOO: "bond0"},
    {HCCL: "off0"},
    {HCCL: "bare0"},
    {HCCL: "docker0"},
    {HCCL: "eth0"},
    {HCCL: "=eth0", GLOO: "data0"},
    {},
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code."""
    there = [
        interface("lo", "127.0.0.1/8"),
        interface("eth0", "192.0.2.1/24"),
        interface("eth0.100", "192.0.3.1/24"),
        interface("data0", "198.51.100.1/24"),
        interface("bare0"),
        interface("off0", "192.168.7.1/24", up=False),
        interface("docker0", "172.17.0.1/16"),
    ]
    for variables in VARIABLES:
        network = FakeNetwork(there)
        yield ask(check, fake_host(variables={**SEVERAL, **variables}, network=network, expect="npu"))
    yield ask(check, fake_host())
