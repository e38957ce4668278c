"""A packet as far as it is known: each field is all the values that it may have. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from ipaddress import ip_address, ip_network
from typing import Any, Callable, Optional

from npudoctor.core.frozen import dataclass, replace

# Values that a number may have, as (first, last) with both ends included: sorted, with gaps between them.
Ranges = tuple[tuple[int, int], ...]
# Three-valued: True and False are certain, None is unknown.
Truth = Optional[bool]

TCP, ICMPV6 = 6, 58  # protocol numbers of IANA
WORD: Ranges = ((0, 0xFFFFFFFF),)
ZERO: Ranges = ((0, 0),)
MAX_LISTED_VALUES = 64  # values that are looked at one by one
PORTS: Ranges = ((0, 65535),)
# connect() takes a source port of ip_local_port_range: 32768 to 60999, unless an admin has widened it.
UNPRIVILEGED: Ranges = ((1024, 65535),)
# Flags of the TCP header. A SYN that asks for ECN also has ECE and CWR, its SYN+ACK has ECE (RFC 3168).
SYN: Ranges = ((0x02, 0x02), (0xC2, 0xC2))
SYN_ACK: Ranges = ((0x12, 0x12), (0x52, 0x52))
ACK: Ranges = ((0x10, 0x10), (0x18, 0x18))  # alone, and with PSH where data comes with it


@dataclass(frozen=True)
class Packet:
    """One packet at a hook; each field holds every value that it may have.

    `iif` and `oif` are names of interfaces: "" for no interface, None for an unknown one that is not lo.
    `states`: those that conntrack may give it. `untracked`: whether a rule exempts it from conntrack.
    `original`: from the one who opens the connection, not a reply. `translated`: whether NAT has given it
    another address or port.
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
        return all_addresses(self.ipv6)


Test = Callable[[Packet], Truth]


def all_addresses(ipv6: bool) -> Ranges:
    """All addresses of a family."""
    return ((0, (1 << (128 if ipv6 else 32)) - 1),)


def join_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges sorted; those that overlap or touch are joined."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def subtract(ranges: Ranges, holes: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges without the values in `holes`."""
    remainder = list(ranges)
    for low, high in holes:
        remainder = [
            part
            for first, last in remainder
            for part in ((first, min(last, low - 1)), (max(first, high + 1), last))
            if part[0] <= part[1]
        ]
    return tuple(remainder)


def is_among(values: Ranges, expected: Ranges) -> Truth:
    """Whether a field that has one of `values` is in `expected`; None if only some of them are."""
    some_inside = some_outside = False
    for low, high in values:
        hits = [
            (max(low, first), min(high, last)) for first, last in expected if first <= high and low <= last
        ]
        some_inside = some_inside or bool(hits)
        some_outside = some_outside or sum(last - first + 1 for first, last in hits) < high - low + 1
    if some_inside and some_outside:
        return None
    return some_inside


def list_values(values: Ranges) -> Optional[list[int]]:
    """All values one by one; None if they are more than MAX_LISTED_VALUES."""
    if sum(high - low + 1 for low, high in values) > MAX_LISTED_VALUES:
        return None
    return [value for low, high in values for value in range(low, high + 1)]


def to_ranges(values: Iterable[int]) -> Ranges:
    """Single values as ranges."""
    return join_ranges((value, value) for value in values)


def parse_address(text: str) -> Ranges:
    """The addresses that an address or a prefix in text means; ValueError if it is neither."""
    if "/" not in text:
        number = int(ip_address(text))
        return ((number, number),)
    network = ip_network(text, strict=False)
    return ((int(network.network_address), int(network.broadcast_address)),)


def spoil(packet: Packet) -> Packet:
    """The packet after a step that may have changed any address, port or mark of it."""
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
    """The opposite; None stays None."""
    return None if truth is None else not truth


def all_true(truths: Iterable[Truth]) -> Truth:
    """Whether all are true: False if one is False, None if one is None and none is False."""
    return negate(any_true(map(negate, truths)))


def any_true(truths: Iterable[Truth]) -> Truth:
    """Whether at least one is true: None if one is None and none is True."""
    answer: Truth = False
    for truth in truths:
        if truth:
            return True
        answer = None if truth is None else answer
    return answer


def merge(packets: Iterable[Optional[Packet]]) -> Optional[Packet]:
    """One packet that may be any of these; None if there is none."""
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
