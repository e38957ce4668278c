"""The matches of iptables as questions to a packet; None where we cannot say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.firewall.fields import PROTOCOLS, TCP_FLAGS, any_bit, same_name, same_words
from npudoctor.firewall.packet import (
    ICMPV6,
    TCP,
    ZERO,
    Packet,
    Ranges,
    Test,
    Truth,
    among,
    any_true,
    few,
    join_ranges,
    negate,
    of_address,
)

# Modules whose options we know; the options of any other one are left unread.
KNOWN = {
    "tcp", "multiport", "conntrack", "state", "comment", "addrtype", "mark", "connmark", "iprange", "pkttype",
    "rpfilter", "icmp6",
}  # fmt: skip
# What packets of TCP and ICMPv6 without extension headers are not.
_NEVER = {"udp", "icmp", "sctp", "dccp", "udplite", "rt", "frag", "ah", "esp", "mh", "dst", "hbh", "ipcomp"}
_LAST_PORT = 65535


def unknown_match(module: str) -> Test:
    """The answer of a module whose options we do not read."""
    if module in _NEVER:
        return lambda packet: False
    return lambda packet: None


def option_test(module: str, option: str, values: Sequence[str], contrary: bool) -> Test:
    """The question of one option; `contrary`: a "!" stands before it."""
    try:
        test = _test(module, option, values)
    except (ValueError, IndexError):
        test = None
    if test is None:
        return lambda packet: None
    found: Test = test
    return (lambda packet: negate(found(packet))) if contrary else found


def _test(module: str, option: str, values: Sequence[str]) -> Optional[Test]:
    if not module:
        # The options that every rule may have.
        if option in ("-s", "-d"):
            return _address(option == "-s", of_address(values[0]))
        if option == "-p":
            text = values[0]
            wanted = 0 if text == "all" else PROTOCOLS[text] if text in PROTOCOLS else int(text)
            return lambda packet: wanted in (0, packet.protocol)
        if option in ("-i", "-o"):
            name = values[0]
            return lambda packet: same_name(packet.iif if option == "-i" else packet.oif, name, any_end="+")
        if option == "-f":
            return lambda packet: False
        return None
    if module in ("tcp", "multiport"):
        return _ports(option, values)
    if module in ("mark", "connmark") and option == "--mark":
        return _mark(values[0], connection=module == "connmark")
    return _parse_other(module, option, values)


def _parse_other(module: str, option: str, values: Sequence[str]) -> Optional[Test]:
    if module == "comment":
        return lambda packet: True
    if option == "--icmpv6-type":
        kind = int(values[0].partition("/")[0])
        return lambda packet: packet.protocol == ICMPV6 and among(packet.flags, ((kind, kind),))
    if option in ("--ctstate", "--state"):
        states = values[0].lower().split(",")

        def in_state(packet: Packet) -> Truth:
            known = same_words(packet.states, states)
            return known if known or packet.translated is False else None

        return in_state
    if module == "addrtype":
        return _kind_of_address(option, values[0])
    if module == "iprange":
        low, high = (of_address(end)[0][0] for end in values[0].split("-"))
        return _address(option == "--src-range", ((low, high),))
    if module == "pkttype":
        return lambda packet: values[0] == "unicast" if packet.protocol == TCP and packet.iif else None
    if module == "rpfilter" and option == "--invert":
        # The way back leads through the interface that the packet came by: so it was chosen.
        return lambda packet: False if packet.protocol == TCP and packet.iif and packet.mark == ZERO else None
    return None


def _address(source: bool, wanted: Ranges) -> Test:
    return lambda packet: among(packet.source if source else packet.destination, wanted)


def _ports(option: str, values: Sequence[str]) -> Optional[Test]:
    if option in ("--tcp-flags", "--syn"):
        masked, asked = ("FIN,SYN,RST,ACK", "SYN") if option == "--syn" else values[:2]

        def has_flags(packet: Packet) -> Truth:
            mask, bits = _bits(masked), _bits(asked)
            known = few(packet.flags) or []
            truths = {flags & mask == bits for flags in known} if packet.protocol == TCP else {False}
            return next(iter(truths)) if len(truths) == 1 else None

        return has_flags
    if option not in ("--dport", "--sport", "--dports", "--sports", "--ports"):
        return None
    spans = []
    for part in values[0].split(","):
        low, colon, high = part.partition(":")
        spans.append((int(low or 0), int(high or _LAST_PORT) if colon else int(low)))
    wanted = join_ranges(spans)

    def test(packet: Packet) -> Truth:
        if packet.protocol != TCP:
            return False
        if option.startswith("--d"):
            return among(packet.destination_port, wanted)
        if option.startswith("--s"):
            return among(packet.source_port, wanted)
        return any_true(among(ports, wanted) for ports in (packet.destination_port, packet.source_port))

    return test


def _bits(text: str) -> int:
    if text in ("ALL", "NONE"):
        return 0x3F if text == "ALL" else 0
    return any_bit(TCP_FLAGS[name.lower()] for name in text.split(","))


def _kind_of_address(option: str, kinds: str) -> Optional[Test]:
    """The destination is ours; of the source nothing is said, but that it is not ours."""
    if option == "--dst-type":
        ours = "LOCAL" in kinds.split(",")
        return lambda packet: ours if packet.protocol == TCP and packet.original else None
    if option == "--src-type" and set(kinds.split(",")) <= {"LOCAL", "BROADCAST", "MULTICAST"}:
        return lambda packet: False if packet.protocol == TCP and packet.original else None
    return None


def _mark(text: str, connection: bool) -> Test:
    value, _slash, mask = text.partition("/")
    wanted, bits = int(value, 0), int(mask or "0xffffffff", 0)

    def test(packet: Packet) -> Truth:
        known = few(packet.connection_mark if connection else packet.mark)
        truths = {number & bits == wanted for number in known or ()}
        return next(iter(truths)) if len(truths) == 1 else None

    return test
