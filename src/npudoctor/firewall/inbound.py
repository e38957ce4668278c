"""Whether the firewall lets other nodes in: for a peer, or for anybody, on ports of ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.ports import Span
from npudoctor.firewall.hooks import Firewall, PortVerdict
from npudoctor.firewall.packet import (
    UNPRIVILEGED,
    Packet,
    Ranges,
    everything,
    join_ranges,
    of_address,
    subtract,
)
from npudoctor.firewall.walk import OutOfTime
from npudoctor.host.host import Host
from npudoctor.host.network.interfaces import Interface

# Addresses that no other node has: this network, loopback, multicast and beyond; ::, ::1, multicast.
_NOBODY = {False: ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"), True: ("::/127", "ff00::/8")}
# Interfaces below which nothing else decides; bridges, VLANs and so on have ports with rules of their own.
_PLAIN_KINDS = ("", "veth", "dummy", "tun", "bond", "ipoib")
_WORST = ("blocked", "unknown", "open")


@dataclass(frozen=True)
class Sender:
    """Who connects: `packet` lacks the port; `name` is the peer as the user wrote it, "" for anybody."""

    name: str
    packet: Packet
    bridged: bool = False


def senders(host: Host, peers: Iterable[str]) -> Iterator[Sender]:
    """One for each peer that is not this machine; ValueError for a peer that is not an IP address."""
    for peer in peers:
        address, _percent, zone = peer.strip("[]").partition("%")
        ranges = of_address(address)
        link = host.network.named(zone) if zone else None
        way = host.network.route_to(address, index=link.index if link else 0)
        if way is not None and way.local:
            continue
        interface = host.network.at(way.index) if way is not None else None
        yield _caller(host, peer, ":" in address, ranges, interface)


def any_senders(host: Host) -> list[Sender]:
    """A caller of each family in which this machine has an address that others can reach."""
    families = {
        address.ipv6
        for interface in host.network.interfaces()
        if not interface.loopback
        for address in interface.addresses
        if address.scope == "global" or not address.ipv6
    }
    callers = []
    for ipv6 in sorted(families):
        others = subtract(subtract(everything(ipv6), _nobody(ipv6)), _own_ranges(host, ipv6, None))
        callers.append(_caller(host, "", ipv6, others, None))
    return callers


def _caller(host: Host, name: str, ipv6: bool, source: Ranges, interface: Optional[Interface]) -> Sender:
    known = interface is not None and not interface.master
    packet = Packet(
        ipv6,
        source,
        _own_ranges(host, ipv6, interface if known else None),
        UNPRIVILEGED,
        (),
        iif=interface.name if interface is not None and known else None,
    )
    return Sender(name, packet, interface is None or interface.kind not in _PLAIN_KINDS)


def _own_ranges(host: Host, ipv6: bool, interface: Optional[Interface]) -> Ranges:
    """Our addresses that a caller may connect to: those of the interface by which it comes."""
    among = host.network.interfaces() if interface is None else [interface]
    ranges = join_ranges(
        pair
        for candidate in among
        for address in candidate.addresses
        if address.ipv6 is ipv6 and not (ipv6 and address.scope == "link") and not candidate.loopback
        for pair in of_address(address.text)
    )
    return ranges or subtract(everything(ipv6), _nobody(ipv6))


def _nobody(ipv6: bool) -> Ranges:
    return join_ranges(pair for text in _NOBODY[ipv6] for pair in of_address(text))


def judge(firewall: Firewall, caller: Sender, spans: Sequence[Span]) -> Iterator[tuple[Span, PortVerdict]]:
    """The verdicts for ports, those of equal fate together as far as that is cheap to say."""
    from npudoctor.core.frozen import replace

    todo = list(reversed(spans))
    while todo:
        low, high = todo.pop()
        packet = replace(caller.packet, destination_port=((low, high),))
        try:
            verdict = firewall.judge(packet, caller.bridged)
        except OutOfTime:
            verdict = PortVerdict("unknown", late=True)
        if verdict.answer == "unknown" and verdict.by_port and low < high:
            middle = (low + high) // 2
            todo += [(middle + 1, high), (low, middle)]
        else:
            yield (low, high), verdict


def worst(answers: Iterable[str]) -> str:
    """Of several peers' verdicts."""
    return min(answers, key=_WORST.index)
