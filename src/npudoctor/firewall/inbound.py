"""Whether the firewall lets a peer, or anybody, connect to ports of this node."""

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
    all_addresses,
    join_ranges,
    parse_address,
    subtract,
)
from npudoctor.firewall.walk import OutOfTime
from npudoctor.host.host import Host
from npudoctor.host.network.interfaces import Interface

# Addresses that no other node has: "this network", loopback, multicast and reserved; ::, ::1, multicast.
_UNUSABLE_ADDRESSES = {False: ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"), True: ("::/127", "ff00::/8")}
# Kinds of interfaces that have no ports below them; a bridge's ports have rules of their own.
_PLAIN_KINDS = ("", "veth", "dummy", "tun", "bond", "ipoib")
_WORST_FIRST = ("blocked", "unknown", "open")


@dataclass(frozen=True)
class Sender:
    """Who connects: `packet` without its destination port; `name` is the peer as the user wrote it, "" for
    anybody; `bridged`: its packets may come through a bridge."""

    name: str
    packet: Packet
    bridged: bool = False


def find_senders(host: Host, peers: Iterable[str]) -> Iterator[Sender]:
    """A sender for each peer that is not this machine; ValueError for a peer that is not an IP address."""
    for peer in peers:
        address, _percent, zone = peer.strip("[]").partition("%")
        ranges = parse_address(address)
        link = host.network.interface_named(zone) if zone else None
        way = host.network.route_to(address, index=link.index if link else 0)
        if way is not None and way.local:
            continue
        interface = host.network.interface_at(way.index) if way is not None else None
        yield _make_sender(host, peer, ":" in address, ranges, interface)


def find_any_senders(host: Host) -> list[Sender]:
    """A sender of any foreign address, for each family in which others can reach this machine."""
    families = {
        address.ipv6
        for interface in host.network.interfaces()
        if not interface.loopback
        for address in interface.addresses
        if address.scope == "global" or not address.ipv6
    }
    callers = []
    for ipv6 in sorted(families):
        foreign_addresses = subtract(
            subtract(all_addresses(ipv6), _unusable_addresses(ipv6)), _own_ranges(host, ipv6, None)
        )
        callers.append(_make_sender(host, "", ipv6, foreign_addresses, None))
    return callers


def _make_sender(host: Host, name: str, ipv6: bool, source: Ranges, interface: Optional[Interface]) -> Sender:
    # Packets for a slave of a bridge or bond come up at its master: which interface the rules see is unknown.
    is_exact = interface is not None and not interface.master
    packet = Packet(
        ipv6,
        source,
        _own_ranges(host, ipv6, interface if is_exact else None),
        UNPRIVILEGED,
        (),
        iif=interface.name if interface is not None and is_exact else None,
    )
    return Sender(name, packet, interface is None or interface.kind not in _PLAIN_KINDS)


def _own_ranges(host: Host, ipv6: bool, interface: Optional[Interface]) -> Ranges:
    """Our addresses that a caller may connect to: those of `interface`, or of all if it is None."""
    interfaces = host.network.interfaces() if interface is None else [interface]
    ranges = join_ranges(
        pair
        for candidate in interfaces
        for address in candidate.addresses
        if address.ipv6 is ipv6 and not (ipv6 and address.scope == "link") and not candidate.loopback
        for pair in parse_address(address.text)
    )
    return ranges or subtract(all_addresses(ipv6), _unusable_addresses(ipv6))


def _unusable_addresses(ipv6: bool) -> Ranges:
    return join_ranges(pair for text in _UNUSABLE_ADDRESSES[ipv6] for pair in parse_address(text))


def judge_ports(
    firewall: Firewall, caller: Sender, spans: Sequence[Span]
) -> Iterator[tuple[Span, PortVerdict]]:
    """Yield verdicts that cover `spans`; a range without a verdict is halved while its parts may have one."""
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
            # Halving stops where the rules themselves draw a border between ports.
            middle = (low + high) // 2
            todo += [(middle + 1, high), (low, middle)]
        else:
            yield (low, high), verdict


def worst_answer(answers: Iterable[str]) -> str:
    """The worst of several answers: blocked before unknown before open."""
    return min(answers, key=_WORST_FIRST.index)
