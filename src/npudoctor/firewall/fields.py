"""Reads the fields that expressions of nftables name, and parses the values compared with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable, Optional, Union

from npudoctor.core.frozen import dataclass
from npudoctor.firewall.packet import (
    ICMPV6,
    TCP,
    WORD,
    ZERO,
    Packet,
    Ranges,
    Truth,
    list_values,
    parse_address,
    to_ranges,
)

# What a field of a packet is: ranges of a number, a name, or the words that it may be; None for unknown.
Value = Union[Ranges, str, frozenset[str], None]

PROTOCOLS = {
    "icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "dccp": 33, "ipv6-route": 43, "ipv6-frag": 44, "gre": 47,
    "esp": 50, "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "ospf": 89, "sctp": 132, "udplite": 136, "comp": 108,
    "ipcomp": 108, "ipv6": 41, "vrrp": 112, "pim": 103,
}  # fmt: skip
TCP_FLAGS = {"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32, "ecn": 64, "cwr": 128}
_FAMILIES = {"ipv4": 2, "ipv6": 10}  # NFPROTO_IPV4 and NFPROTO_IPV6 of the kernel
_ETHERTYPES = {"ip": 0x800, "ip6": 0x86DD, "arp": 0x806, "vlan": 0x8100, "8021q": 0x8100, "8021ad": 0x88A8}
_ICMPV6 = {
    "destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4,
    "echo-request": 128, "echo-reply": 129, "mld-listener-query": 130, "mld-listener-report": 131,
    "mld-listener-done": 132, "mld-listener-reduction": 132, "nd-router-solicit": 133,
    "nd-router-advert": 134, "nd-neighbor-solicit": 135, "nd-neighbor-advert": 136, "nd-redirect": 137,
    "mld2-listener-report": 143,
}  # fmt: skip
# PACKET_HOST and so on of linux/if_packet.h; "unicast" is nft's older name of "host".
_PACKETS = {"host": 0, "unicast": 0, "broadcast": 1, "multicast": 2, "other": 3}
_DIRECTIONS = {"original": 0, "reply": 1}


class NoSuchField(Exception):
    """The packet has no such field: the kernel then ends the rule, even for `!=`."""


@dataclass(frozen=True)
class Field:
    """A field of a packet. `read` raises NoSuchField for a packet without it; `parse` returns the ranges of
    one value that it is compared with, or raises ValueError."""

    read: Callable[[Packet], Value]
    parse: Callable[[Any], Ranges] = lambda raw: parse_numbers(raw, {})
    bits: bool = False  # "in" asks for any of the bits
    name: bool = False  # of an interface, where None is any but lo


def parse_numbers(raw: Any, names: dict[str, int]) -> Ranges:
    """The ranges of a number, a name for one, or a range; ValueError for anything else."""
    if isinstance(raw, dict) and "range" in raw:
        low, high = (parse_numbers(end, names)[0][0] for end in raw["range"])
        return ((low, high),)
    if isinstance(raw, list) and raw:
        # Several flags, as in `tcp flags syn,ack`: some versions of nft print a list, others {"|": [...]}.
        return to_ranges([combine_bits(parse_numbers(word, names)[0][0] for word in raw)])
    if isinstance(raw, dict) and "|" in raw:
        return parse_numbers(raw["|"], names)
    if isinstance(raw, str):
        return to_ranges([names[raw] if raw in names else int(raw, 0)])
    if isinstance(raw, int) and not isinstance(raw, bool):
        return to_ranges([raw])
    raise ValueError(raw)


def combine_bits(values: Iterable[int]) -> int:
    """The values combined by a bitwise or."""
    combined = 0
    for value in values:
        combined |= value
    return combined


def parse_addresses(raw: Any) -> Ranges:
    """The ranges of an address, a prefix or a range of addresses; ValueError for anything else."""
    if isinstance(raw, dict) and "prefix" in raw:
        return parse_address(f"{raw['prefix']['addr']}/{raw['prefix']['len']}")
    if isinstance(raw, dict) and "range" in raw:
        low, high = (parse_address(end)[0][0] for end in raw["range"])
        return ((low, high),)
    if isinstance(raw, str):
        return parse_address(raw)
    raise ValueError(raw)


def _named_field(read: Callable[[Packet], Value], names: dict[str, int], bits: bool = False) -> Field:
    return Field(read, lambda raw: parse_numbers(raw, names), bits)


def _require_protocol(protocol: int, read: Callable[[Packet], Value]) -> Callable[[Packet], Value]:
    def read_of_protocol(packet: Packet) -> Value:
        if packet.protocol != protocol:
            raise NoSuchField
        return read(packet)

    return read_of_protocol


def _require_family(ipv6: bool, read: Callable[[Packet], Value]) -> Callable[[Packet], Value]:
    def read_of_family(packet: Packet) -> Value:
        if packet.ipv6 is not ipv6:
            raise NoSuchField
        return read(packet)

    return read_of_family


def _read_impossible(packet: Packet) -> Value:
    """Read a field of a protocol that none of our packets has."""
    raise NoSuchField


def read_nothing(packet: Packet) -> Value:
    """Read a field of which nothing is known."""
    return None


def _host_only(packet: Packet) -> Value:
    """Read `meta pkttype`: TCP comes to this host; a neighbour solicitation may also be a multicast."""
    return ZERO if packet.protocol == TCP and packet.iif != "" else None


def _interface_field(read: Callable[[Packet], Optional[str]]) -> Field:
    return Field(read, name=True)


PAYLOAD: dict[tuple[str, str], Field] = {
    ("tcp", "sport"): Field(_require_protocol(TCP, lambda packet: packet.source_port)),
    ("tcp", "dport"): Field(_require_protocol(TCP, lambda packet: packet.destination_port)),
    ("tcp", "flags"): _named_field(_require_protocol(TCP, lambda packet: packet.flags), TCP_FLAGS, bits=True),
    ("th", "sport"): Field(lambda packet: packet.source_port if packet.protocol == TCP else None),
    ("th", "dport"): Field(lambda packet: packet.destination_port if packet.protocol == TCP else None),
    ("ip", "saddr"): Field(_require_family(False, lambda packet: packet.source), parse_addresses),
    ("ip", "daddr"): Field(_require_family(False, lambda packet: packet.destination), parse_addresses),
    ("ip", "protocol"): _named_field(
        _require_family(False, lambda packet: to_ranges([packet.protocol])), PROTOCOLS
    ),
    ("ip6", "saddr"): Field(_require_family(True, lambda packet: packet.source), parse_addresses),
    ("ip6", "daddr"): Field(_require_family(True, lambda packet: packet.destination), parse_addresses),
    ("ip6", "nexthdr"): _named_field(
        _require_family(True, lambda packet: to_ranges([packet.protocol])), PROTOCOLS
    ),
    ("icmpv6", "type"): _named_field(_require_protocol(ICMPV6, lambda packet: packet.flags), _ICMPV6),
}
_OTHER_PROTOCOLS = ("icmp", "igmp", "udp", "udplite", "sctp", "dccp", "ah", "esp", "comp", "gre")
META: dict[str, Field] = {
    "l4proto": _named_field(lambda packet: to_ranges([packet.protocol]), PROTOCOLS),
    "nfproto": _named_field(lambda packet: to_ranges([10 if packet.ipv6 else 2]), _FAMILIES),
    "protocol": _named_field(lambda packet: to_ranges([0x86DD if packet.ipv6 else 0x800]), _ETHERTYPES),
    "mark": Field(lambda packet: packet.mark),
    "pkttype": _named_field(_host_only, _PACKETS),
    "iifname": _interface_field(lambda packet: packet.iif),
    "iif": _interface_field(lambda packet: packet.iif),
    "oifname": _interface_field(lambda packet: packet.oif),
    "oif": _interface_field(lambda packet: packet.oif),
}
CONNECTION: dict[str, Field] = {
    "state": Field(lambda packet: packet.states),
    "mark": Field(lambda packet: packet.connection_mark),
    "direction": _named_field(lambda packet: ZERO if packet.original else to_ranges([1]), _DIRECTIONS),
}


def field_of(expression: Any) -> Field:
    """The field that the left side of a comparison reads; one that is always unknown if we cannot read it."""
    if not isinstance(expression, dict) or len(expression) != 1:
        return Field(read_nothing)
    ((kind, body),) = expression.items()
    if kind == "payload":
        protocol, name = body.get("protocol"), body.get("field")
        if protocol in _OTHER_PROTOCOLS:
            return Field(_read_impossible)
        field = PAYLOAD.get((str(protocol), str(name)))
        if field is not None:
            return field
        if protocol in ("tcp", "icmpv6"):
            return Field(_require_protocol(TCP if protocol == "tcp" else ICMPV6, read_nothing))
        if protocol in ("ip", "ip6"):
            return Field(_require_family(protocol == "ip6", read_nothing))
        return Field(read_nothing)
    if kind == "meta":
        return META.get(body.get("key"), Field(read_nothing))
    if kind == "ct" and "dir" not in body:
        return CONNECTION.get(body.get("key"), Field(read_nothing))
    if kind in ("&", "|", "^"):
        return _masked_field(kind, body)
    return Field(read_nothing)


def _masked_field(kind: str, body: list[Any]) -> Field:
    """A field combined with a constant, as `ct mark & 0xff` is."""
    inner, constant = field_of(body[0]), body[1:]
    try:
        (operand,) = {low for text in constant for low, _high in inner.parse(text)}
    except ValueError:
        return Field(read_nothing)

    def read(packet: Packet) -> Value:
        value = inner.read(packet)
        possible_numbers = list_values(value) if isinstance(value, tuple) else None
        if possible_numbers is None:
            return None
        return to_ranges(
            {"&": number & operand, "|": number | operand, "^": number ^ operand}[kind]
            for number in possible_numbers
        )

    return Field(read, inner.parse, inner.bits)


def matches_name(name: Optional[str], pattern: str, any_end: str = "*") -> Truth:
    """Whether an interface's name matches a name or a prefix: `eth*`, which iptables writes `eth+`."""
    if pattern == any_end:
        return True
    if name is None:
        return False if pattern == "lo" else None
    return name.startswith(pattern[:-1]) if pattern.endswith(any_end) else name == pattern


def matches_words(words: frozenset[str], expected_words: Iterable[str]) -> Truth:
    """Whether the word that a field has, one of `words`, is expected; None if only some of them are."""
    matching_words = words & set(expected_words)
    return True if matching_words == words else None if matching_words else False


def marks_of(value: Any, packet: Packet) -> Ranges:
    """The mark that a rule sets: a number, another mark, or one combined with a constant."""
    if isinstance(value, int) and not isinstance(value, bool):
        return to_ranges([value])
    field = field_of(value)
    try:
        marks = field.read(packet)
    except NoSuchField:
        return WORD
    return marks if isinstance(marks, tuple) and not field.name else WORD
