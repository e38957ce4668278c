"""Reads the network interfaces of our network namespace: their kind, state and addresses."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.messages import _, strerror
from npudoctor.host.network.netlink import GET_ADDRESS, GET_LINK, Message, dump
from npudoctor.host.psutil_door import ask_psutil

_UP, _LOOPBACK = 0x1, 0x8  # IFF_UP, IFF_LOOPBACK
# IFLA_IFNAME, IFLA_QDISC, IFLA_MASTER, IFLA_OPERSTATE, IFLA_LINKINFO
_NAME, _QUEUE, _MASTER, _STATE, _INFO = 3, 6, 10, 16, 18
_KIND = 1  # IFLA_INFO_KIND
_ADDRESS, _LOCAL, _LABEL, _FLAGS = 1, 2, 3, 8  # IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_FLAGS
# RFC 2863, in the order of IF_OPER_* in linux/if.h.
_STATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_NOT_READY = 0x40 | 0x08  # IFA_F_TENTATIVE, IFA_F_DADFAILED

# Prefixes of interfaces that container engines, Kubernetes and hypervisors make for use on this host only.
_INTERNAL_PREFIXES = (
    "docker", "veth", "cali", "flannel", "cni", "virbr", "vnet", "kube-", "tunl0", "nodelocaldns",
    "cilium_", "lxc", "lxdbr", "podman", "weave", "antrea-", "ovn-k8s",
)  # fmt: skip


@dataclass(frozen=True)
class Address:
    """An address of an interface. `length`: of its prefix, in bits. `label`: its name in getifaddrs(3) if
    that is not the interface's, such as eth0:1.

    `scope`: global, link (fe80::) or host (127.0.0.1). `is_ready`: False while IPv6 still looks whether
    another node has it (tentative), and if one has.
    """

    text: str
    length: int = 32
    label: str = ""
    scope: str = "global"
    is_ready: bool = True

    @property
    def ipv6(self) -> bool:
        """Whether it is an IPv6 address."""
        return ":" in self.text


@dataclass(frozen=True)
class Interface:
    """A network interface.

    - `up`: switched on by the administrator.
    - `state`: the kernel's operstate, "unknown" if the driver does not set it.
    - `kind`: "" for a real card, else bridge, veth, vlan, bond and so on.
    - `master`: the name of the bridge or bond that it is a port of, else "".
    - `queue`: its queueing discipline, as tc shows it, "" if unknown.
    """

    name: str
    index: int = 0
    up: bool = True
    state: str = "up"
    loopback: bool = False
    kind: str = ""
    master: str = ""
    addresses: tuple[Address, ...] = ()
    queue: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether packets can leave through it: it is up, and it has a carrier or its driver does not say."""
        return self.up and self.state in ("up", "unknown")

    @property
    def names(self) -> frozenset[str]:
        """All names under which getifaddrs(3) lists it: its own, and the labels of its addresses."""
        return frozenset((self.name, *(address.label for address in self.addresses if address.label)))

    @property
    def description(self) -> str:
        """One line for evidence: eth0: up, 192.0.2.1/24."""
        addresses = ", ".join(f"{address.text}/{address.length}" for address in self.addresses)
        return f"{self.name}: {self.state if self.up else 'down'}, {addresses or '-'}"

    @property
    def is_internal(self) -> bool:
        """Whether it leads only to containers or virtual machines on this host, judged by its name.

        Not by its kind: inside a container the way out is a veth, too, which is called eth0.
        """
        return self.loopback or is_internal_name(self.name)


def is_internal_name(name: str) -> bool:
    """Whether a name is one that container engines and hypervisors give."""
    # Docker names a network's bridge br- and 12 hex digits; br-ex of OpenStack is a real bridge.
    is_docker_bridge = name.startswith("br-") and len(name) == 15 and not name[3:].strip("0123456789abcdef")
    return is_docker_bridge or name == "lo" or name.startswith(_INTERNAL_PREFIXES)


def interfaces() -> list[Interface]:
    """The interfaces of this network namespace, in the kernel's order; CannotTell if it does not answer."""
    try:
        return parse_interfaces(dump(GET_LINK), dump(GET_ADDRESS))
    except OSError as error:
        why = strerror(error.errno) if error.errno else str(error)
        raise CannotTell(_("cannot query the kernel for interfaces: {why}", why=why)) from error


@dataclass(frozen=True)
class LinkSettings:
    """The MTU of an interface in bytes and its speed in Mb/s; 0 if the driver does not say."""

    mtu: int = 0
    speed: int = 0


def link_settings() -> dict[str, LinkSettings]:
    """The settings of all interfaces of this network namespace by name, as psutil asks the drivers.

    Not from /sys/class/net, which shows the namespace in which sysfs was mounted.
    """
    cards = ask_psutil(_("the interfaces"), lambda psutil: psutil.net_if_stats())
    return {name: LinkSettings(card.mtu, card.speed) for name, card in cards.items()}


def interface_addresses() -> frozenset[str]:
    """All addresses of all interfaces of this network namespace, without zone ids."""
    return frozenset(address.text for interface in interfaces() for address in interface.addresses)


def addresses_of(name: str) -> list[str]:
    """The addresses that getifaddrs(3) lists under a name, those of IPv4 first; empty if there is none."""
    matching = [
        address
        for interface in interfaces()
        for address in interface.addresses
        if name == (address.label or interface.name)
    ]
    return [address.text for address in sorted(matching, key=lambda address: address.ipv6)]


def parse_interfaces(links: Iterable[Message], addresses: Iterable[Message]) -> list[Interface]:
    """Combine the kernel's lists of links and of addresses into interfaces."""
    interfaces = [
        (_parse_link(fixed, attributes), attributes.get(_MASTER, b"")) for fixed, attributes in links
    ]
    by_index = {link.index: link.name for link, _master in interfaces}
    addresses_by_index: dict[int, list[Address]] = {}
    for fixed, attributes in addresses:
        address = _parse_address(fixed, attributes)
        if address is not None:
            addresses_by_index.setdefault(struct.unpack_from("=I", fixed, 4)[0], []).append(address)
    return [
        replace(
            link,
            master=by_index.get(struct.unpack("=I", master)[0], "") if master else "",
            addresses=tuple(addresses_by_index.get(link.index, ())),
        )
        for link, master in interfaces
    ]


def _parse_link(fixed: bytes, attributes: dict[int, bytes]) -> Interface:
    from npudoctor.host.network.netlink import parse_attributes as parse_nested

    _family, _type, index, flags = struct.unpack_from("=BxHiI", fixed)
    state = attributes.get(_STATE, b"\0")[0]
    return Interface(
        _decode_text(attributes.get(_NAME, b"")),
        index,
        bool(flags & _UP),
        _STATES[state] if state < len(_STATES) else "unknown",
        bool(flags & _LOOPBACK),
        _decode_text(parse_nested(attributes.get(_INFO, b"")).get(_KIND, b"")),
        queue=_decode_text(attributes.get(_QUEUE, b"")),
    )


def _parse_address(fixed: bytes, attributes: dict[int, bytes]) -> Optional[Address]:
    """Parse an address; None if it is neither IPv4 nor IPv6.

    On a point-to-point link IFA_ADDRESS is that of the other end, and IFA_LOCAL is ours.
    """
    family, length, flags, scope = struct.unpack_from("=BBBB", fixed)
    packed = attributes.get(_LOCAL) or attributes.get(_ADDRESS, b"")
    if (family, len(packed)) not in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
        return None
    extended_flags = attributes.get(_FLAGS)
    # IFA_FLAGS has 32 bits, the field of the header only the lowest 8 (Linux 3.14).
    flags = struct.unpack("=I", extended_flags)[0] if extended_flags else flags
    # RT_SCOPE_LINK and RT_SCOPE_HOST of linux/rtnetlink.h.
    scope_name = {253: "link", 254: "host"}.get(scope, "global")
    text = socket.inet_ntop(family, packed)
    return Address(
        text, length, _decode_text(attributes.get(_LABEL, b"")), scope_name, not flags & _NOT_READY
    )


def _decode_text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "surrogateescape")
