"""Machines with several network interfaces, faked and real, for the tests of what chooses between them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from npudoctor.host import Host, Options
from npudoctor.testing import Content, FakeNetwork, device, fake_host, interface

# Asks a check in a process of its own: module, name, what to set, peers.
ASK = """
import json, sys
from importlib import import_module
from npudoctor.host import Host, Options
from npudoctor.testing import ask
module, name, variables, peers = json.loads(sys.argv[1])
check = getattr(import_module("npudoctor.checks.network." + module), name)
asked = ask(check, Host(Options(expect="npu", peers=tuple(peers)), variables=variables))
told = [[one.code, one.severity.name, one.message, list(one.evidence)] for one in asked.findings]
print(json.dumps({"status": asked.status.value, "findings": told, "facts": dict(asked.facts)}))
"""
# eth0 leads to the other nodes, data0 to the storage, docker0 to containers; tired0 has lost its carrier.
SCENE = """set -e
ip link set lo up
pair() { ip link add "$1" type veth peer name "$2"; }
pair eth0 far0; pair data0 far1; pair tired0 far2; pair bare0 far3; pair eth0x far4
ip addr add 192.0.2.1/24 dev eth0; ip addr add 192.0.2.3/24 dev eth0 label eth0:1
ip addr add 198.51.100.1/24 dev data0
ip addr add 203.0.113.1/24 dev tired0
ip -6 addr add 2001:db8::1/64 dev eth0 nodad
ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up
ip link add off0 type bridge; ip addr add 192.168.7.1/24 dev off0
for name in eth0 far0 data0 far1 tired0 bare0 far3; do ip link set "$name" up; done
ip route add default via 192.0.2.254
"""


def ask_within(
    module: str, name: str, variables: Mapping[str, str], peers: tuple[str, ...] = (), more: str = ""
) -> dict[str, Any]:
    """The answer in a network namespace of its own with the interfaces of SCENE."""
    asked = json.dumps([module, name, dict(variables), peers])
    script = SCENE + more + '\nexec "$@"'
    argv = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, "-c", ASK, asked]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def machine(
    variables: Mapping[str, str],
    *,
    npus: int = 1,
    gpus: int = 0,
    peers: tuple[str, ...] = (),
    expect: str = "auto",
    names: Mapping[str, str] = {},
) -> Host:
    """The same machine, faked."""
    network = FakeNetwork(
        [
            interface("lo", "127.0.0.1/8", "::1/128", state="unknown"),
            interface("eth0", "192.0.2.1/24", "2001:db8::1/64", "fe80::1/64", mtu=9000),
            interface("eth0x", up=False, state="down"),
            interface("eth10", "10.0.0.1/16"),
            interface("data0", "198.51.100.1/24", mtu=1500),
            interface("tired0", "203.0.113.1/24", state="lowerlayerdown"),
            interface("bare0", "fe80::2/64"),
            interface("docker0", "172.17.0.1/16", kind="bridge"),
            interface("off0", "192.168.7.1/24", up=False, state="down"),
        ],
        ["default eth0"],
    )
    files: dict[str, Content] = {f"/dev/davinci{at}": device() for at in range(npus)}
    files.update({f"/dev/nvidia{at}": device() for at in range(gpus)})
    files["/etc/hosts"] = "192.0.2.9 head\n127.0.1.1 me\n"
    return fake_host(
        files,
        variables=variables,
        network=network,
        expect=expect,
        options=Options(peers=peers),
        names={name: [address] for name, address in names.items()},
    )
