"""The interfaces of our network namespace and the routes out of it, each asked for once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.host.network.interfaces import Interface, LinkSettings, interfaces, link_settings
from npudoctor.host.network.routes import Route, route_to


class Network:
    """The interfaces and routes of our network namespace; CannotTell if the kernel does not answer."""

    def __init__(
        self,
        ask_interfaces: Callable[[], Sequence[Interface]] = interfaces,
        ask_route: Callable[[str, str, int], Optional[Route]] = route_to,
        ask_settings: Callable[[], Mapping[str, LinkSettings]] = link_settings,
    ) -> None:
        self._ask_interfaces, self._ask_route, self._ask_settings = ask_interfaces, ask_route, ask_settings
        self._interfaces: Optional[Sequence[Interface]] = None
        self._settings: Optional[Mapping[str, LinkSettings]] = None
        self._route_by_key: dict[tuple[str, str, int], Optional[Route]] = {}

    def interfaces(self) -> Sequence[Interface]:
        """All interfaces, in the kernel's order."""
        if self._interfaces is None:
            self._interfaces = self._ask_interfaces()
        return self._interfaces

    def link_settings(self, name: str) -> LinkSettings:
        """The MTU and speed of an interface; zeros for one that does not exist."""
        if self._settings is None:
            self._settings = self._ask_settings()
        return self._settings.get(name, LinkSettings())

    def mtu_of(self, name: str) -> Optional[int]:
        """The MTU of an interface in bytes; None if it is unknown, whatever the reason."""
        try:
            return self.link_settings(name).mtu or None
        except CannotTell:
            return None

    def interface_named(self, name: str) -> Optional[Interface]:
        """The interface of this name, or with an address of this label; None if there is none."""
        return next((interface for interface in self.interfaces() if name in interface.names), None)

    def interface_at(self, index: int) -> Optional[Interface]:
        """The interface of this index; None if there is none."""
        return next((interface for interface in self.interfaces() if interface.index == index), None)

    def interface_of_address(self, address: str) -> Optional[Interface]:
        """The interface that has an address, in its usual spelling; None if it is not ours."""
        for interface in self.interfaces():
            if any(interface_address.text == address for interface_address in interface.addresses):
                return interface
        return None

    def route_to(self, destination: str, source: str = "", index: int = 0) -> Optional[Route]:
        """The route of a packet to an IP address; None if there is none. Nothing is sent."""
        key = (destination, source, index)
        if key not in self._route_by_key:
            self._route_by_key[key] = self._ask_route(*key)
        return self._route_by_key[key]
