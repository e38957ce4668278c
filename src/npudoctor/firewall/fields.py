"""What nftables' expressions read from a packet, and how the values beside them are spelled."""

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
    few,
    of_address,
    single,
)

# What a field of a packet is: ranges of a number, a name or words that it may be, None for unknown.
Value = Union[Ranges, str, frozenset[str], None]

PROTOCOLS = {
    "icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "dccp": 33, "ipv6-route": 43, "ipv6-frag": 44, "gre": 47,
    "esp": 50, "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "ospf": 89, "sctp": 132, "udplite": 136, "comp": 108,
    "ipcomp": 108, "ipv6": 41, "vrrp": 112, "pim": 103,
}  # fmt: skip
TCP_FLAGS = {"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32, "ecn": 64, "cwr": 128}
_FAMILIES = {"ipv4": 2, "ipv6": 10}
_ETHERTYPES = {"ip": 0x800, "ip6": 0x86DD, "arp": 0x806, "vlan": 0x8100, "8021q": 0x8100, "8021ad": 0x88A8}
_ICMPV6 = {
    "destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4,
    "echo-request": 128, "echo-reply": 129, "mld-listener-query": 130, "mld-listener-report": 131,
    "mld-listener-done": 132, "mld-listener-reduction": 132, "nd-router-solicit": 133,
    "nd-router-advert": 134, "nd-neighbor-solicit": 135, "nd-neighbor-advert": 136, "nd-redirect": 137,
    "mld2-listener-report": 143,
}  # fmt: skip
_PACKETS = {"host": 0, "unicast": 0, "broadcast": 1, "multicast": 2, "other": 3}
_DIRECTIONS = {"original": 0, "reply": 1}


class NoSuchField(Exception):
    """The packet has no such field: a comparison with it ends the rule, whatever it asks."""


@dataclass(frozen=True)
class Field:
    """`read` may raise Absent; `parse` gives the ranges of one value, or raises ValueError."""

    read: Callable[[Packet], Value]
    parse: Callable[[Any], Ranges] = lambda raw: numbers(raw, {})
    bits: bool = False  # "in" asks for any of the bits
    name: bool = False  # of an interface, where None is any but lo


def numbers(raw: Any, names: dict[str, int]) -> Ranges:
    """A number, a name for one, or a range of them; ValueError for what is neither."""
    if isinstance(raw, dict) and "range" in raw:
        low, high = (numbers(end, names)[0][0] for end in raw["range"])
        return ((low, high),)
    if isinstance(raw, list) and raw:
        return single([any_bit(numbers(word, names)[0][0] for word in raw)])
    if isinstance(raw, dict) and "|" in raw:
        return numbers(raw["|"], names)
    if isinstance(raw, str):
        return single([names[raw] if raw in names else int(raw, 0)])
    if isinstance(raw, int) and not isinstance(raw, bool):
        return single([raw])
    raise ValueError(raw)


def any_bit(values: Iterable[int]) -> int:
    """All bits together."""
    together = 0
    for value in values:
        together |= value
    return together


def addresses(raw: Any) -> Ranges:
    """An address, a prefix or a range of addresses."""
    if isinstance(raw, dict) and "prefix" in raw:
        return of_address(f"{raw['prefix']['addr']}/{raw['prefix']['len']}")
    if isinstance(raw, dict) and "range" in raw:
        low, high = (of_address(end)[0][0] for end in raw["range"])
        return ((low, high),)
    if isinstance(raw, str):
        return of_address(raw)
    raise ValueError(raw)


def _named_field(read: Callable[[Packet], Value], names: dict[str, int], bits: bool = False) -> Field:
    return Field(read, lambda raw: numbers(raw, names), bits)


def _of(protocol: int, read: Callable[[Packet], Value]) -> Callable[[Packet], Value]:
    def there(packet: Packet) -> Value:
        if packet.protocol != protocol:
            raise NoSuchField
        return read(packet)

    return there


def _family(ipv6: bool, read: Callable[[Packet], Value]) -> Callable[[Packet], Value]:
    def there(packet: Packet) -> Value:
        if packet.ipv6 is not ipv6:
            raise NoSuchField
        return read(packet)

    return there


def _nowhere(packet: Packet) -> Value:
    """What a Field of a protocol that no packet of ours has reads."""
    raise NoSuchField


def read_nothing(packet: Packet) -> Value:
    """A field that nobody knows."""
    return None


def _host_only(packet: Packet) -> Value:
    """Of META: which kind of packet the link layer saw; one that looks for a neighbour may be a multicast."""
    return ZERO if packet.protocol == TCP and packet.iif != "" else None


def _interface(read: Callable[[Packet], Optional[str]]) -> Field:
    return Field(read, name=True)


PAYLOAD: dict[tuple[str, str], Field] = {
    ("tcp", "sport"): Field(_of(TCP, lambda packet: packet.source_port)),
    ("tcp", "dport"): Field(_of(TCP, lambda packet: packet.destination_port)),
    ("tcp", "flags"): _named_field(_of(TCP, lambda packet: packet.flags), TCP_FLAGS, bits=True),
    ("th", "sport"): Field(lambda packet: packet.source_port if packet.protocol == TCP else None),
    ("th", "dport"): Field(lambda packet: packet.destination_port if packet.protocol == TCP else None),
    ("ip", "saddr"): Field(_family(False, lambda packet: packet.source), addresses),
    ("ip", "daddr"): Field(_family(False, lambda packet: packet.destination), addresses),
    ("ip", "protocol"): _named_field(_family(False, lambda packet: single([packet.protocol])), PROTOCOLS),
    ("ip6", "saddr"): Field(_family(True, lambda packet: packet.source), addresses),
    ("ip6", "daddr"): Field(_family(True, lambda packet: packet.destination), addresses),
    ("ip6", "nexthdr"): _named_field(_family(True, lambda packet: single([packet.protocol])), PROTOCOLS),
    ("icmpv6", "type"): _named_field(_of(ICMPV6, lambda packet: packet.flags), _ICMPV6),
}
_OTHERS = ("icmp", "igmp", "udp", "udplite", "sctp", "dccp", "ah", "esp", "comp", "gre")
META: dict[str, Field] = {
    "l4proto": _named_field(lambda packet: single([packet.protocol]), PROTOCOLS),
    "nfproto": _named_field(lambda packet: single([10 if packet.ipv6 else 2]), _FAMILIES),
    "protocol": _named_field(lambda packet: single([0x86DD if packet.ipv6 else 0x800]), _ETHERTYPES),
    "mark": Field(lambda packet: packet.mark),
    "pkttype": _named_field(_host_only, _PACKETS),
    "iifname": _interface(lambda packet: packet.iif),
    "iif": _interface(lambda packet: packet.iif),
    "oifname": _interface(lambda packet: packet.oif),
    "oif": _interface(lambda packet: packet.oif),
}
CONNECTION: dict[str, Field] = {
    "state": Field(lambda packet: packet.states),
    "mark": Field(lambda packet: packet.connection_mark),
    "direction": _named_field(lambda packet: ZERO if packet.original else single([1]), _DIRECTIONS),
}


def field_of(expression: Any) -> Field:
    """What the left side of a comparison reads; one that reads None where we do not know it."""
    if not isinstance(expression, dict) or len(expression) != 1:
        return Field(read_nothing)
    ((kind, body),) = expression.items()
    if kind == "payload":
        protocol, name = body.get("protocol"), body.get("field")
        if protocol in _OTHERS:
            return Field(_nowhere)
        known = PAYLOAD.get((str(protocol), str(name)))
        if known is not None:
            return known
        if protocol in ("tcp", "icmpv6"):
            return Field(_of(TCP if protocol == "tcp" else ICMPV6, read_nothing))
        if protocol in ("ip", "ip6"):
            return Field(_family(protocol == "ip6", read_nothing))
        return Field(read_nothing)
    if kind == "meta":
        return META.get(body.get("key"), Field(read_nothing))
    if kind == "ct" and "dir" not in body:
        return CONNECTION.get(body.get("key"), Field(read_nothing))
    if kind in ("&", "|", "^"):
        return _bitwise(kind, body)
    return Field(read_nothing)


def _bitwise(kind: str, body: list[Any]) -> Field:
    """A field combined with a constant."""
    inner, constant = field_of(body[0]), body[1:]
    try:
        (other,) = {low for text in constant for low, _high in inner.parse(text)}
    except ValueError:
        return Field(read_nothing)

    def read(packet: Packet) -> Value:
        value = inner.read(packet)
        known = few(value) if isinstance(value, tuple) else None
        if known is None:
            return None
        return single(
            {"&": number & other, "|": number | other, "^": number ^ other}[kind] for number in known
        )

    return Field(read, inner.parse, inner.bits)


def same_name(name: Optional[str], pattern: str, any_end: str = "*") -> Truth:
    """Whether an interface has a name, or one that begins so: `eth*`, which iptables writes `eth+`."""
    if pattern == any_end:
        return True
    if name is None:
        return False if pattern == "lo" else None
    return name.startswith(pattern[:-1]) if pattern.endswith(any_end) else name == pattern


def same_words(words: frozenset[str], wanted: Iterable[str]) -> Truth:
    """Whether the one of these words that holds is among the wanted ones."""
    inside = words & set(wanted)
    return True if inside == words else None if inside else False


def marks_of(value: Any, packet: Packet) -> Ranges:
    """The mark that a rule sets: a number, another mark, or one changed by a constant."""
    if isinstance(value, int) and not isinstance(value, bool):
        return single([value])
    field = field_of(value)
    try:
        marks = field.read(packet)
    except NoSuchField:
        return WORD
    return marks if isinstance(marks, tuple) and not field.name else WORD
