"""A packet as far as it is known: each field is all the values that it may have. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from ipaddress import ip_address, ip_network
from typing import Any, Callable, Optional

from npudoctor.core.frozen import dataclass, replace

# Values that a number may have, as ranges with both ends: sorted, apart from each other.
Ranges = tuple[tuple[int, int], ...]
Truth = Optional[bool]

TCP, ICMPV6 = 6, 58
WORD: Ranges = ((0, 0xFFFFFFFF),)
ZERO: Ranges = ((0, 0),)
FEW = 64  # values that are looked at one by one
PORTS: Ranges = ((0, 65535),)
UNPRIVILEGED: Ranges = ((1024, 65535),)
SYN: Ranges = ((0x02, 0x02), (0xC2, 0xC2))  # the second asks for ECN
SYN_ACK: Ranges = ((0x12, 0x12), (0x52, 0x52))
ACK: Ranges = ((0x10, 0x10), (0x18, 0x18))


@dataclass(frozen=True)
class Packet:
    """One packet at a hook. An interface is its name, "" for none, None where it is unknown and not lo.

    `states` are those that conntrack may give it; `untracked` whether a rule keeps it from that;
    `translated` whether one has given it another address or port.
    """

    ipv6: bool
    source: Ranges
    destination: Ranges
    source_port: Ranges
    destination_port: Ranges
    iif: Optional[str] = None
    oif: Optional[str] = ""
    protocol: int = TCP
    flags: Ranges = SYN  # of TCP; the type of ICMPv6
    states: frozenset[str] = frozenset({"new"})
    untracked: Truth = False
    original: bool = True
    mark: Ranges = ZERO
    connection_mark: Ranges = ZERO
    translated: Truth = False

    @property
    def addresses(self) -> Ranges:
        """All addresses of its family."""
        return everything(self.ipv6)


Test = Callable[[Packet], Truth]


def everything(ipv6: bool) -> Ranges:
    """All addresses of a family."""
    return ((0, (1 << (128 if ipv6 else 32)) - 1),)


def join_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges sorted, and made one where they touch."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def subtract(ranges: Ranges, holes: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges with others cut out of them."""
    left = list(ranges)
    for low, high in holes:
        left = [
            part
            for first, last in left
            for part in ((first, min(last, low - 1)), (max(first, high + 1), last))
            if part[0] <= part[1]
        ]
    return tuple(left)


def among(values: Ranges, wanted: Ranges) -> Truth:
    """Whether a field that has one of `values` is in `wanted`: surely, surely not, or None."""
    inside = outside = False
    for low, high in values:
        hits = [(max(low, first), min(high, last)) for first, last in wanted if first <= high and low <= last]
        inside = inside or bool(hits)
        outside = outside or sum(last - first + 1 for first, last in hits) < high - low + 1
    if inside and outside:
        return None
    return inside


def few(values: Ranges) -> Optional[list[int]]:
    """The single values, where they are few."""
    if sum(high - low + 1 for low, high in values) > FEW:
        return None
    return [value for low, high in values for value in range(low, high + 1)]


def single(values: Iterable[int]) -> Ranges:
    """Single values as ranges."""
    return join_ranges((value, value) for value in values)


def of_address(text: str) -> Ranges:
    """An address or a prefix in text; ValueError when it is neither."""
    if "/" not in text:
        number = int(ip_address(text))
        return ((number, number),)
    network = ip_network(text, strict=False)
    return ((int(network.network_address), int(network.broadcast_address)),)


def spoil(packet: Packet) -> Packet:
    """A packet of which anything may have been changed."""
    return replace(
        packet,
        source=packet.addresses,
        destination=packet.addresses,
        source_port=PORTS,
        destination_port=PORTS,
        mark=WORD,
        connection_mark=WORD,
        translated=None,
    )


def negate(truth: Truth) -> Truth:
    """The contrary, where it is known."""
    return None if truth is None else not truth


def all_true(truths: Iterable[Truth]) -> Truth:
    """Whether all hold: not if one surely does not."""
    return negate(any_true(map(negate, truths)))


def any_true(truths: Iterable[Truth]) -> Truth:
    """Whether one of them holds, at least."""
    answer: Truth = False
    for truth in truths:
        if truth:
            return True
        answer = None if truth is None else answer
    return answer


def merge(packets: Iterable[Optional[Packet]]) -> Optional[Packet]:
    """One packet that may be any of these; None where there is none."""
    result: Optional[Packet] = None
    for packet in packets:
        if packet is None or packet == result:
            continue
        result = packet if result is None else _either(result, packet)
    return result


def _either(packet: Packet, other: Packet) -> Packet:
    changes: dict[str, Any] = {}
    for field in fields(packet):
        own_values, other_values = getattr(packet, field.name), getattr(other, field.name)
        if own_values == other_values:
            continue
        if isinstance(own_values, tuple):
            changes[field.name] = join_ranges((*own_values, *other_values))
        elif isinstance(own_values, frozenset):
            changes[field.name] = own_values | other_values
        else:
            changes[field.name] = None
    return replace(packet, **changes)
