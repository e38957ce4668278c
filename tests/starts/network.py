"""Machines whose network is odd: interfaces, addresses, ports, routes and rules."""

from __future__ import annotations

from .machine import Machine

_LISTEN = "held \"s = socket.socket(socket.{family}); {option}s.bind(('{address}', 29500)); s.listen()\""
_ALL = _LISTEN.format(family="AF_INET", option="", address="0.0.0.0")  # noqa: S104
_V6ONLY = "s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1); "
_ALL_V6 = _LISTEN.format(family="AF_INET6", option=_V6ONLY, address="::")
_ETH0 = _LISTEN.format(family="AF_INET", option="", address="10.0.0.5")
_BOUND = "held \"s = socket.socket(); s.bind(('127.0.0.1', 29500))\""
_OUTGOING = "held \"s = socket.socket(); s.bind(('0.0.0.0', 29500)); s.connect(('10.0.0.5', 9000))\""
_SERVED = "held \"t = socket.create_server(('10.0.0.5', 9000))\""
_UDP = "held \"s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 29500))\""
_NO_V6 = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.lo.disable_ipv6=1"
# Python's server closes first: its end of the connection waits there.
_TIME_WAIT = (
    "/usr/bin/python3 -I -c \"import socket; s = socket.create_server(('127.0.0.1', 29500)); "
    "c = socket.create_connection(('127.0.0.1', 29500)); a, _ = s.accept(); a.close(); c.close(); s.close()\""
)


def _rules(*lines: str) -> tuple[str, ...]:
    """A table of nftables with two chains."""
    return (
        "nft add table inet site",
        "nft add chain inet site input '{ type filter hook input priority 0; }'",
        "nft add chain inet site output '{ type filter hook output priority 0; }'",
        *(f"nft add rule inet site {line}" for line in lines),
    )


def _counted(most: int) -> tuple[str, ...]:
    """Rules for so many connections of one address."""
    counted = f"add @seen '{{ ip saddr ct count over {most} }}'"
    return (
        *_rules()[:2],
        "nft add set inet site seen '{ type ipv4_addr; flags dynamic; }'",
        f"nft add rule inet site input tcp flags syn ct state new {counted} drop",
    )


def _on(job: str, name: str, why: str, *setup: str, near: str = "", **variables: str) -> Machine:
    """One where a job starts if there is a broken one near."""
    needs = ("nft",) if any(line.startswith("nft") for line in setup) else ()
    return Machine(f"{job}-{name}", job, not near, why, setup, variables, needs=needs, near=near)


INTERFACES = (
    _on("torchrun", "lo-down", "the loopback interface is down", "ip link set lo down"),
    _on("msrun", "lo-down", "the loopback interface is down", "ip link set lo down"),
    _on("multiprocessing", "lo-without-address", "lo is up and has no address", "ip addr flush dev lo"),
    _on("multiprocessing", "address-gone", "the master's address went to another machine",
        "ip addr del 10.0.0.5/24 dev eth0", "ip addr add 10.0.0.6/24 dev eth0", MASTER_ADDR="10.0.0.5"),
    _on("torchrun", "interface-renamed", "the interface that gloo is told is called otherwise",
        "ip link set eth0 down", "ip link set eth0 name ens5", "ip link set ens5 up",
        GLOO_SOCKET_IFNAME="eth0"),
    _on("torchrun", "interface-down", "the interface that gloo is told is down",
        "ip link set eth0 down", "ip addr flush dev eth0", GLOO_SOCKET_IFNAME="eth0"),
    _on("torchrun", "lo-shaped", "a shaper on lo lets few bytes through",
        "tc qdisc add dev lo root tbf rate 64kbit burst 1540 latency 50ms", near="torchrun-lo-down"),
    _on("multiprocessing", "lo-only", "no interface but lo", "ip link del eth0",
        near="multiprocessing-lo-without-address"),
    _on("torchrun", "lo-only", "no interface but lo", "ip link del eth0", near="torchrun-interface-down"),
    _on("torchrun", "interface-lo", "gloo is told the loopback interface", GLOO_SOCKET_IFNAME="lo",
        near="torchrun-interface-renamed"),
    _on("torchrun", "no-route", "there is no default route", "ip route del default", near="torchrun-lo-down"),
    _on("multiprocessing", "second-address", "the master's address is the second of its interface",
        "ip addr add 10.0.0.6/24 dev eth0", MASTER_ADDR="10.0.0.6", near="multiprocessing-address-gone"),
)  # fmt: skip

PORTS = (
    _on("torchrun", "port-held", "another user listens on the master's port", _ALL),
    _on("torchrun", "port-held-v6", "another user listens on the master's port, over IPv6 alone", _ALL_V6,
        near="torchrun-port-held"),
    _on("msrun", "port-held", "another user listens on the master's port", _ALL),
    _on("multiprocessing", "port-bound", "the master's port is bound, and nobody listens", _BOUND),
    _on("multiprocessing", "port-outgoing", "a connection to lo goes out from the master's port",
        *(line.replace("10.0.0.5", "127.0.0.1") for line in (_SERVED, _OUTGOING))),
    _on("multiprocessing", "port-outgoing-eth0", "a connection by eth0 goes out from the master's port",
        _SERVED, _OUTGOING, near="multiprocessing-port-outgoing"),
    _on("multiprocessing", "port-privileged", "the master's port is for root", MASTER_PORT="80"),
    _on("torchrun", "ports-privileged", "ports up to 32000 are for root",
        "sysctl -qw net.ipv4.ip_unprivileged_port_start=32000"),
    _on("torchrun", "port-range-tiny", "two ports for all outgoing connections",
        "sysctl -qw net.ipv4.ip_local_port_range='40000 40001'"),
    _on("multiprocessing", "ports-reserved", "all ports of outgoing connections are reserved",
        "sysctl -qw net.ipv4.ip_local_port_range='40000 40100'",
        "sysctl -qw net.ipv4.ip_local_reserved_ports=40000-40100"),
    _on("multiprocessing", "port-elsewhere", "the port is held on the address of another interface", _ETH0,
        near="multiprocessing-port-bound"),
    _on("torchrun", "port-udp", "the port is held for UDP", _UDP, near="torchrun-port-held"),
    _on("multiprocessing", "port-waiting", "an old connection of the port waits in TIME_WAIT", _TIME_WAIT,
        near="multiprocessing-port-outgoing"),
    _on("torchrun", "port-of-neighbour", "the port is held in another network namespace",
        "nsenter --target $switch --net /usr/bin/python3 -I -c \"import socket, time; "
        "s = socket.create_server(('0.0.0.0', 29500)); time.sleep(600)\" &", "sleep 0.5",
        near="torchrun-port-held"),
    _on("multiprocessing", "port-for-all", "no port is for root alone",
        "sysctl -qw net.ipv4.ip_unprivileged_port_start=0", MASTER_PORT="80",
        near="multiprocessing-port-privileged"),
    _on("torchrun", "port-range-narrow", "two hundred ports for all outgoing connections",
        "sysctl -qw net.ipv4.ip_local_port_range='40000 40199'", near="torchrun-port-range-tiny"),
    _on("multiprocessing", "ports-reserved-half", "half of the ports of outgoing connections are reserved",
        "sysctl -qw net.ipv4.ip_local_port_range='40000 40100'",
        "sysctl -qw net.ipv4.ip_local_reserved_ports=40000-40050", near="multiprocessing-ports-reserved"),
)  # fmt: skip

RULES = (
    _on("torchrun", "firewall-port", "a rule drops what comes to the master's port",
        *_rules("input tcp dport 29500 drop")),
    _on("torchrun", "firewall-other-ports", "a rule drops what comes to ports that programs are given",
        *_rules("input tcp dport 32768-60999 drop")),
    _on("msrun", "firewall-other-ports", "a rule drops what comes to ports that programs are given",
        *_rules("input tcp dport 32768-60999 drop")),
    _on("multiprocessing", "firewall-user", "a rule rejects what one user sends over TCP",
        *_rules("output meta skuid 23517 meta l4proto tcp reject")),
    _on("torchrun", "firewall-count", "a rule allows one connection to one machine at a time",
        *_counted(1)),
    _on("multiprocessing", "rule-prohibits", "a rule of routing prohibits 127.0.0.1",
        "ip rule add pref 100 lookup local", "ip rule add pref 10 to 127.0.0.1 prohibit",
        "ip rule del pref 0"),
    _on("torchrun", "firewall-outside", "rules drop all that comes in by eth0",
        *_rules("input iifname eth0 drop", "output oifname eth0 drop"), near="torchrun-firewall-port"),
    _on("multiprocessing", "firewall-other-user", "a rule rejects what another user sends over TCP",
        *_rules("output meta skuid 23518 meta l4proto tcp reject"), near="multiprocessing-firewall-user"),
    _on("msrun", "firewall-count-high", "a rule allows five hundred connections to one machine at a time",
        *_counted(500),
        near="torchrun-firewall-count"),
)  # fmt: skip

MACHINES = (*INTERFACES, *PORTS, *RULES)
