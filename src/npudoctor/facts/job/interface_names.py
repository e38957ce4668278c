"""How HCCL, NCCL, Gloo and TensorPipe read the names of network interfaces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.host.network.interfaces import Address, Interface

HCCL, NCCL, GLOO, TENSORPIPE = (f"{prefix}_SOCKET_IFNAME" for prefix in ("HCCL", "NCCL", "GLOO", "TP"))


@dataclass(frozen=True)
class NamePattern:
    """Which interfaces a value names. `each`: all of the names must be there, not just one."""

    names: tuple[str, ...]
    exact: bool = True
    negated: bool = False
    each: bool = False

    def takes(self, name: str) -> bool:
        """Return whether the name of an interface matches."""
        hit = name in self.names if self.exact else name.startswith(self.names)
        return hit is not self.negated

    def of(self, interfaces: Iterable[Interface]) -> list[Interface]:
        """The interfaces that the value names, under any of their names.

        A negated name can only leave an interface with an address, as getifaddrs() lists those that have one.
        """
        return [interface for interface in interfaces if any(self.takes(name) for name in interface.names)]

    def missing(self, interfaces: Sequence[Interface]) -> list[str]:
        """The names of which there is no interface, where each must exist; else none."""
        present_names = {name for interface in interfaces for name in interface.names}
        return [name for name in self.names if name not in present_names] if self.each else []


def read_names(variable: str, value: str) -> NamePattern:
    """How the library that reads the variable understands a value; ValueError with a sentence when it refuses
    it.
    """
    # Gloo splits at commas and takes exact names; TensorPipe takes the whole value as one name.
    if variable in (GLOO, TENSORPIPE):
        names = value.split(",") if variable == GLOO else [value]
        return NamePattern(tuple(name for name in names if name), each=True)
    # NCCL's syntax, which HCCL shares: ^ excludes, = is exact, else a prefix.
    negated = value.startswith("^")
    rest = value[1:] if negated else value
    exact = rest.startswith("=")
    names = (rest[1:] if exact else rest).split(",")
    if variable == HCCL and "" in names:
        raise ValueError(_("it contains an empty name"))
    return NamePattern(tuple(name for name in names if name), exact, negated)


def usable_addresses(interface: Interface) -> list[Address]:
    """The addresses under which a job can be reached: link-local ones are not told to other nodes."""
    usable = [address for address in interface.addresses if address.is_ready]
    return [address for address in usable if address.scope == "global" or interface.loopback]


def default_order(interfaces: Iterable[Interface]) -> list[Interface]:
    """The interfaces that HCCL would take when no variable is set, in its order: by name, docker after the
    others, lo last.
    """
    # The order is from the documents of HCCL_SOCKET_IFNAME.
    useful = [interface for interface in interfaces if interface.is_alive and usable_addresses(interface)]
    return sorted(
        useful,
        key=lambda interface: (interface.loopback, interface.name.startswith("docker"), interface.name),
    )
