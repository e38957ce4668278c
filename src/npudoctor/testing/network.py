"""FakeNetwork: a network of given values instead of the kernel's, for fake_host() and its tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.host.network.interfaces import Address, Interface, LinkSettings
from npudoctor.host.network.network import Network
from npudoctor.host.network.routes import Route


@dataclass(frozen=True)
class FakeInterface(Interface):
    """An interface with what its driver says; 0 where it says nothing."""

    mtu: int = 0
    speed: int = 0


class FakeNetwork(Network):
    """Interfaces as given, numbered from 1.

    `routes`: "default eth0", "10.0.0.0/8 eth1"; besides, each interface that is up leads to the networks of
    its own addresses.
    """

    def __init__(self, interfaces: Iterable[Interface], routes: Iterable[str] = ()) -> None:
        self._given = [replace(interface, index=at) for at, interface in enumerate(interfaces, 1)]
        self._routes = [tuple(route.split()) for route in routes]
        settings = {
            interface.name: LinkSettings(interface.mtu, interface.speed)
            for interface in self._given
            if isinstance(interface, FakeInterface)
        }
        super().__init__(lambda: self._given, self._find_route, lambda: settings)

    def _find_route(self, destination: str, source: str, index: int) -> Optional[Route]:
        import ipaddress

        address = ipaddress.ip_address(destination)
        owner = self.interface_of_address(destination)
        # The kernel's table `local` comes before all others.
        if owner is not None or address.is_loopback:
            return Route(1, destination, local=True)
        ways = [
            (network.prefixlen, interface.index, own)
            for interface in self._given
            if interface.up
            for own, network in self._networks_of(interface, address.version)
            if address in network and index in (0, interface.index)
        ]
        # The longest prefix wins, as in the kernel.
        return Route(*max(ways)[1:]) if ways else None

    def _networks_of(self, interface: Interface, version: int) -> list[tuple[str, Any]]:
        import ipaddress

        own = [(a.text, f"{a.text}/{a.length}") for a in interface.addresses]
        first = next((text for text, _net in own if (":" in text) == (version == 6)), "")
        every = "::/0" if version == 6 else "0.0.0.0/0"
        more = [every if to == "default" else to for to, name in self._routes if name == interface.name]
        networks = [*own, *((first, to) for to in more if first)]
        networks_found = [(text, ipaddress.ip_network(net, strict=False)) for text, net in networks]
        return [(text, net) for text, net in networks_found if net.version == version]


def interface(name: str, *addresses: str, **more: Any) -> Interface:
    """An interface with addresses such as "192.0.2.1/24"; `more`: up, state, kind, loopback, master, mtu,
    speed.
    """
    parts = [address.partition("/") for address in addresses]
    # By the first characters, as the kernel would tell the scope.
    scopes = {"fe80": "link", "127.": "host", "::1": "host"}
    own = tuple(
        Address(text, int(length or (128 if ":" in text else 32)), "" if ":" in text else name,
                scopes.get(text[:4], "global"))
        for text, _slash, length in parts
    )  # fmt: skip
    return FakeInterface(name, addresses=own, **{"loopback": name == "lo", **more})


def interfaces_of(addresses: Iterable[str]) -> list[Interface]:
    """lo with the loopback addresses, and eth0 with the others."""
    all_of_them = list(addresses)
    inner = [address for address in all_of_them if address == "::1" or address.startswith("127.")]
    outer = [address for address in all_of_them if address not in inner]
    return [interface("lo", *inner, state="unknown"), *([interface("eth0", *outer)] if outer else [])]
