"""Interfaces, addresses and ways, on real links in network namespaces of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Callable

import psutil
import pytest

from npudoctor.core.errors import CannotTell
from npudoctor.host import Host
from npudoctor.host.network.interfaces import Interface, is_internal_name, parse_interfaces
from npudoctor.host.network.netlink import parse_attributes, parse_message, split_messages
from npudoctor.host.network.routes import parse_route, route_to
from npudoctor.testing import FakeNetwork, interface

LOOK = """
import json, sys
from dataclasses import asdict
from npudoctor.host.network.interfaces import interfaces
from npudoctor.host.network.routes import route_to
ways = {one: route_to(*one.split("<")) for one in sys.argv[1:]}
print(json.dumps([[asdict(one) for one in interfaces()], {k: w and asdict(w) for k, w in ways.items()}]))
"""
SCENE = """set -e
ip link set lo up
ip link add eth0 type veth peer name far
ip addr add 192.0.2.1/24 dev eth0
ip addr add 192.0.2.2/24 dev eth0 label eth0:1
ip -6 addr add 2001:db8::1/64 dev eth0 nodad
ip addr add 198.51.100.1 peer 198.51.100.2/32 dev eth0
ip link set eth0 up; ip link set far up
ip link add br0 type bridge
ip link set far master br0
ip link add off0 type veth peer name off1
ip addr add 203.0.113.1/24 dev off0
ip link set off0 up
ip link add side0 type veth peer name side1
ip addr add 10.1.0.1/16 dev side0
ip link set side0 up; ip link set side1 up
tc qdisc add dev side0 root tbf rate 1mbit burst 10k latency 1s || true
ip route add default via 192.0.2.254
ip route add blackhole 10.9.0.0/16
ip route add default dev side0 table 7
ip rule add from 10.1.0.1 table 7
"""


def look(*ways: str) -> tuple[dict[str, Any], dict[str, Any]]:
    script = SCENE + 'exec "$@"'
    argv = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, "-c", LOOK, *ways]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    found, answers = json.loads(done.stdout)
    return {one["name"]: one for one in found}, answers


@pytest.mark.needs_root
def test_real_links_and_addresses(need: Callable[..., None]) -> None:
    need("unshare", "ip", "tc")
    found, _ways = look()
    eth0 = found["eth0"]
    outer = [one for one in eth0["addresses"] if one["scope"] != "link"]
    texts = [(one["text"], one["length"], one["label"]) for one in outer]
    assert sorted(texts) == [
        ("192.0.2.1", 24, "eth0"),
        ("192.0.2.2", 24, "eth0:1"),
        ("198.51.100.1", 32, "eth0"),
        ("2001:db8::1", 64, ""),
    ]
    assert (eth0["up"], eth0["state"], eth0["kind"], eth0["master"]) == (True, "up", "veth", "")
    assert found["far"]["master"] == "br0"
    assert (found["br0"]["kind"], found["br0"]["up"], found["br0"]["state"]) == ("bridge", False, "down")
    assert (found["off0"]["up"], found["off0"]["state"]) == (True, "lowerlayerdown")
    assert found["lo"]["loopback"]
    assert (found["lo"]["queue"], found["side0"]["queue"]) == ("noqueue", "tbf")
    assert [one["text"] for one in found["lo"]["addresses"]] == ["127.0.0.1", "::1"]


@pytest.mark.needs_root
def test_the_addresses_of_a_name_are_those_that_getifaddrs_lists_under_it(need: Callable[..., None]) -> None:
    need("unshare", "ip")
    code = """
import json, psutil, sys
from npudoctor.host.network.interfaces import addresses_of
told = psutil.net_if_addrs()
asked = ("eth0", "eth0:1", "br0", "lo", "nowhere")
rows = [[row for row in told.get(name, ()) if row.family in (2, 10)] for name in asked]
listed = [[row.address.partition("%")[0] for row in of_name] for of_name in rows]
print(json.dumps([[addresses_of(name) for name in asked], listed]))
"""
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", SCENE + 'exec "$@"', "sh", sys.executable, "-c", code],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    ours, listed = json.loads(done.stdout)
    assert [sorted(addresses) for addresses in ours] == [sorted(addresses) for addresses in listed]
    assert ours[1] == ["192.0.2.2"] and ours[0][0] == "192.0.2.1" and ":" in ours[0][-1] and ours[4] == []


@pytest.mark.needs_root
def test_mtu_and_speed_are_those_of_our_own_namespace(need: Callable[..., None]) -> None:
    """/sys still shows the links of the namespace in which it was mounted."""
    need("unshare", "ip")
    code = """
import json
from npudoctor.host import Host
network = Host().network
print(json.dumps([*map(network.mtu_of, ("eth0", "br0", "no")), network.link_settings("eth0").speed]))
"""
    script = SCENE + 'ip link set eth0 mtu 4200; exec "$@"'
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, "-c", code],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout) == [4200, 1500, None, 10_000]  # a veth calls itself 10 Gb/s


def test_where_psutil_cannot_be_loaded_the_mtu_is_a_fact_that_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    network = Host().network
    assert network.mtu_of("lo") is None and network.interface_named("lo") is not None
    with pytest.raises(CannotTell, match="psutil cannot be loaded"):
        network.link_settings("lo")


@pytest.mark.needs_root
def test_the_kernel_says_the_way(need: Callable[..., None]) -> None:
    need("unshare", "ip")
    asked = ("192.0.2.9", "8.8.8.8", "192.0.2.2", "10.9.1.1", "8.8.8.8<10.1.0.1", "8.8.8.8<172.16.0.1",
             "2001:db8::7", "2001:db9::7", "fe80::5", "198.51.100.2")  # fmt: skip
    found, ways = look(*asked)
    index = {name: one["index"] for name, one in found.items()}
    assert ways["192.0.2.9"] == {"index": index["eth0"], "source": "192.0.2.1", "gateway": "", "local": False}
    assert ways["8.8.8.8"]["gateway"] == "192.0.2.254"
    assert ways["192.0.2.2"]["local"]
    assert ways["10.9.1.1"] is None
    assert ways["8.8.8.8<10.1.0.1"]["index"] == index["side0"]  # a rule about the source
    assert ways["8.8.8.8<172.16.0.1"] is None  # not ours
    assert ways["2001:db8::7"]["index"] == index["eth0"]
    assert ways["2001:db9::7"] is None
    assert ways["198.51.100.2"]["source"] == "198.51.100.1"


def test_it_agrees_with_getifaddrs() -> None:
    """Here, without root."""
    rows = [row for rows in psutil.net_if_addrs().values() for row in rows if row.family in (2, 10)]
    assert Host().sockets.own_addresses() == {row.address.partition("%")[0] for row in rows}


def test_the_way_to_ourselves() -> None:
    way = route_to("127.0.0.1")
    assert way is not None
    assert way.local
    lo = Host().network.interface_at(way.index)
    assert lo is not None and lo.loopback


def test_broken_answers_are_borne() -> None:
    assert list(split_messages(b"")) == []
    assert list(split_messages(b"\x05\0\0\0" + bytes(12))) == []
    assert list(split_messages(b"\xff\0\0\0" + bytes(12))) == []
    assert (
        parse_attributes(b"\x01") == parse_attributes(b"\0\0\0\0") == parse_attributes(b"\xff\0\1\0abc") == {}
    )
    assert parse_attributes(b"\x05\0\3\x80a\0\0\0\x04\0\1\0") == {3: b"a", 1: b""}
    assert parse_message(24, bytes(12)) == (bytes(12), {})
    assert parse_route(bytes(12), {}) is None
    (odd,) = parse_interfaces([(bytes(16), {16: b"\x63", 3: b"\xffx\0"})], [(bytes(8), {})])
    assert (odd.state, odd.name, odd.addresses) == ("unknown", "\udcffx", ())


@pytest.mark.parametrize(
    "name", ["docker0", "veth12ab", "cali123", "flannel.1", "cni0", "br-0123456789ab", "virbr0", "lo"]
)
def test_names_of_what_stays_on_this_host(name: str) -> None:
    assert Interface(name).is_internal


@pytest.mark.parametrize("name", ["eth0", "ens1f0", "bond0", "br0", "br-ex", "br-data12345678", "ib0", "lo2"])
def test_names_of_what_leads_out(name: str) -> None:
    assert not is_internal_name(name)


def test_a_network_of_values() -> None:
    network = FakeNetwork(
        [interface("lo", "127.0.0.1/8"), interface("eth0", "192.0.2.1/24"), interface("ib0", "10.0.0.1/16")],
        ["default eth0"],
    )
    assert [one.index for one in network.interfaces()] == [1, 2, 3]
    for destination, index in (("198.51.100.9", 2), ("10.0.7.7", 3)):
        way = network.route_to(destination)
        assert way is not None and way.index == index
    own = network.route_to("10.0.0.1")
    assert own is not None and own.local
    assert network.route_to("2001:db8::1") is None
    carrier = network.interface_of_address("10.0.0.1")
    assert carrier is not None and carrier == network.interface_named("ib0") == network.interface_at(3)
