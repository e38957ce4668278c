"""The network as this machine's namespace has it: interfaces, and ways to addresses; each asked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.host.network.interfaces import Interface, LinkSettings, interfaces, link_settings
from npudoctor.host.network.routes import Route, route_to


class Network:
    """Our network namespace, read once."""

    def __init__(
        self,
        ask_interfaces: Callable[[], Sequence[Interface]] = interfaces,
        ask_way: Callable[[str, str, int], Optional[Route]] = route_to,
        ask_settings: Callable[[], Mapping[str, LinkSettings]] = link_settings,
    ) -> None:
        self._ask_interfaces, self._ask_way, self._ask_settings = ask_interfaces, ask_way, ask_settings
        self._interfaces: Optional[Sequence[Interface]] = None
        self._settings: Optional[Mapping[str, LinkSettings]] = None
        self._ways: dict[tuple[str, str, int], Optional[Route]] = {}

    def interfaces(self) -> Sequence[Interface]:
        """All interfaces, in the kernel's order."""
        if self._interfaces is None:
            self._interfaces = self._ask_interfaces()
        return self._interfaces

    def link_settings(self, name: str) -> LinkSettings:
        """MTU and speed of an interface."""
        if self._settings is None:
            self._settings = self._ask_settings()
        return self._settings.get(name, LinkSettings())

    def mtu_of(self, name: str) -> Optional[int]:
        """Its MTU as a fact that decides nothing: None where it is not told."""
        try:
            return self.link_settings(name).mtu or None
        except CannotTell:
            return None

    def named(self, name: str) -> Optional[Interface]:
        """The interface of this name, or with an address that is labelled so."""
        return next((interface for interface in self.interfaces() if name in interface.names), None)

    def at(self, index: int) -> Optional[Interface]:
        """The interface of this index."""
        return next((interface for interface in self.interfaces() if interface.index == index), None)

    def owner_of(self, address: str) -> Optional[Interface]:
        """The interface that carries an address, in its usual spelling; None when it is not ours."""
        for interface in self.interfaces():
            if any(own.text == address for own in interface.addresses):
                return interface
        return None

    def route_to(self, destination: str, source: str = "", index: int = 0) -> Optional[Route]:
        """How a packet to an IP address would leave; None where there is no way. Nothing is sent."""
        key = (destination, source, index)
        if key not in self._ways:
            self._ways[key] = self._ask_way(*key)
        return self._ways[key]
