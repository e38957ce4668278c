"""The fast Ethernet ports of this machine, for the advice about the network."""

from __future__ import annotations

from npudoctor import Host
from npudoctor.checks.tuning._settings import read_or_empty
from npudoctor.core.frozen import dataclass

NET = "/sys/class/net"
ETHERNET = "1"  # ARPHRD_ETHER
FAST = 25_000  # Mb/s: what trains over slower ports does not wait for these settings


@dataclass(frozen=True)
class FastLink:
    """An Ethernet port that has a carrier. `speed`: Mb/s. `device`: the interface whose MTU counts, the port
    itself or its bond."""

    name: str
    device: str
    speed: int


def fast_links(host: Host) -> list[FastLink]:
    """Return the fast Ethernet ports in the kernel's order; empty in a container that has only a virtual
    interface."""
    links = []
    for interface in host.network.interfaces():
        folder = f"{NET}/{interface.name}"
        if interface.kind or interface.is_internal or not interface.is_alive:
            continue
        if read_or_empty(host, f"{folder}/type") != ETHERNET:
            continue
        # Virtual interfaces (veth, bridges, bonds) have no device folder in /sys/class/net.
        if host.running_files.stat(f"{folder}/device") is None:
            continue
        speed = host.network.link_settings(interface.name).speed
        if speed >= FAST:
            links.append(FastLink(interface.name, interface.master or interface.name, speed))
    return links
