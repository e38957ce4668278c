"""The network interfaces of our network namespace: what they are, whether they are up, their addresses."""

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

_UP, _LOOPBACK = 0x1, 0x8
# IFLA_IFNAME, IFLA_QDISC, IFLA_MASTER, IFLA_OPERSTATE, IFLA_LINKINFO
_NAME, _QUEUE, _MASTER, _STATE, _INFO = 3, 6, 10, 16, 18
_KIND = 1  # IFLA_INFO_KIND
_ADDRESS, _LOCAL, _LABEL, _FLAGS = 1, 2, 3, 8  # IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_FLAGS
_STATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_NOT_READY = 0x40 | 0x08  # IFA_F_TENTATIVE, IFA_F_DADFAILED

# Made by container engines, Kubernetes and hypervisors for what runs on this host only.
_INNER = (
    "docker", "veth", "cali", "flannel", "cni", "virbr", "vnet", "kube-", "tunl0", "nodelocaldns",
    "cilium_", "lxc", "lxdbr", "podman", "weave", "antrea-", "ovn-k8s",
)  # fmt: skip


@dataclass(frozen=True)
class Address:
    """An address of an interface. `label`: the name that getifaddrs() gives for it, such as eth0:1.

    `scope`: global, link (fe80::) or host (127.0.0.1). Not `ready`: IPv6 found it taken, or still looks.
    """

    text: str
    length: int = 32
    label: str = ""
    scope: str = "global"
    ready: bool = True

    @property
    def ipv6(self) -> bool:
        """Whether it is one of IPv6."""
        return ":" in self.text


@dataclass(frozen=True)
class Interface:
    """A network interface. `up`: switched on; `state`: the kernel's operstate, "unknown" where the driver
    does not say; `kind`: "" for a card, else bridge, veth, vlan, bond...; `master`: what it is a port of;
    `queue`: its queueing discipline, as tc shows it, "" where the kernel does not say.
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
    def alive(self) -> bool:
        """Whether packets can leave through it: it is switched on and not without a carrier."""
        return self.up and self.state in ("up", "unknown")

    @property
    def names(self) -> frozenset[str]:
        """All names under which getifaddrs() lists it."""
        return frozenset((self.name, *(address.label for address in self.addresses if address.label)))

    @property
    def described(self) -> str:
        """One line for evidence: eth0: up, 192.0.2.1/24."""
        own = ", ".join(f"{address.text}/{address.length}" for address in self.addresses)
        return f"{self.name}: {self.state if self.up else 'down'}, {own or '-'}"

    @property
    def inner(self) -> bool:
        """Whether, by its name, it leads to containers or virtual machines on this host only, or nowhere.

        Not by its kind: inside of a container the way out is a veth, and called eth0.
        """
        return self.loopback or is_inner(self.name)


def is_inner(name: str) -> bool:
    """Whether a name is one that container engines and hypervisors give; br-ex may be a real bridge."""
    bridge = name.startswith("br-") and len(name) == 15 and not name[3:].strip("0123456789abcdef")
    return bridge or name == "lo" or name.startswith(_INNER)


def interfaces() -> list[Interface]:
    """Those of this network namespace, in the kernel's order; CannotTell where it does not answer."""
    try:
        return parse_interfaces(dump(GET_LINK), dump(GET_ADDRESS))
    except OSError as error:
        why = strerror(error.errno) if error.errno else str(error)
        raise CannotTell(_("cannot query the kernel for interfaces: {why}", why=why)) from error


@dataclass(frozen=True)
class LinkSettings:
    """The MTU of an interface in bytes, its speed in Mb/s; 0 where the driver does not say."""

    mtu: int = 0
    speed: int = 0


def link_settings() -> dict[str, LinkSettings]:
    """Those of all interfaces of this network namespace, by name, as psutil has them of the driver.

    /sys/class/net may be that of another namespace.
    """
    cards = ask_psutil(_("the interfaces"), lambda psutil: psutil.net_if_stats())
    return {name: LinkSettings(card.mtu, card.speed) for name, card in cards.items()}


def interface_addresses() -> frozenset[str]:
    """Every address of every interface of this network namespace, without zone ids."""
    return frozenset(address.text for interface in interfaces() for address in interface.addresses)


def addresses_of(name: str) -> list[str]:
    """The addresses that getifaddrs() lists under this name, those of IPv4 first; maybe none."""
    own = [
        address
        for interface in interfaces()
        for address in interface.addresses
        if name == (address.label or interface.name)
    ]
    return [address.text for address in sorted(own, key=lambda address: address.ipv6)]


def parse_interfaces(links: Iterable[Message], addresses: Iterable[Message]) -> list[Interface]:
    """The kernel's lists of links and of addresses, put together."""
    interfaces = [(_link(fixed, attributes), attributes.get(_MASTER, b"")) for fixed, attributes in links]
    by_index = {link.index: link.name for link, _master in interfaces}
    owned: dict[int, list[Address]] = {}
    for fixed, attributes in addresses:
        address = _address(fixed, attributes)
        if address is not None:
            owned.setdefault(struct.unpack_from("=I", fixed, 4)[0], []).append(address)
    return [
        replace(
            link,
            master=by_index.get(struct.unpack("=I", master)[0], "") if master else "",
            addresses=tuple(owned.get(link.index, ())),
        )
        for link, master in interfaces
    ]


def _link(fixed: bytes, attributes: dict[int, bytes]) -> Interface:
    from npudoctor.host.network.netlink import attributes as nested

    _family, _type, index, flags = struct.unpack_from("=BxHiI", fixed)
    state = attributes.get(_STATE, b"\0")[0]
    return Interface(
        _text(attributes.get(_NAME, b"")),
        index,
        bool(flags & _UP),
        _STATES[state] if state < len(_STATES) else "unknown",
        bool(flags & _LOOPBACK),
        _text(nested(attributes.get(_INFO, b"")).get(_KIND, b"")),
        queue=_text(attributes.get(_QUEUE, b"")),
    )


def _address(fixed: bytes, attributes: dict[int, bytes]) -> Optional[Address]:
    """None for what is neither IPv4 nor IPv6. On a point-to-point link IFA_ADDRESS is the other end's."""
    family, length, flags, scope = struct.unpack_from("=BBBB", fixed)
    packed = attributes.get(_LOCAL) or attributes.get(_ADDRESS, b"")
    if (family, len(packed)) not in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
        return None
    more = attributes.get(_FLAGS)
    flags = struct.unpack("=I", more)[0] if more else flags
    reach = {253: "link", 254: "host"}.get(scope, "global")
    text = socket.inet_ntop(family, packed)
    return Address(text, length, _text(attributes.get(_LABEL, b"")), reach, not flags & _NOT_READY)


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "surrogateescape")
