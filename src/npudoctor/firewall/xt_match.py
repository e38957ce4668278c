"""Matches of iptables as tests of a packet; a test returns None if its answer is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.firewall.fields import PROTOCOLS, TCP_FLAGS, combine_bits, matches_name, matches_words
from npudoctor.firewall.packet import (
    ICMPV6,
    TCP,
    ZERO,
    Packet,
    Ranges,
    Test,
    Truth,
    any_true,
    is_among,
    join_ranges,
    list_values,
    negate,
    parse_address,
)

# Modules whose options we know; the options of any other one are left unread.
KNOWN_MODULES = {
    "tcp", "multiport", "conntrack", "state", "comment", "addrtype", "mark", "connmark", "iprange", "pkttype",
    "rpfilter", "icmp6",
}  # fmt: skip
# Modules for other protocols and for extension headers of IPv6, which none of our packets has.
_OTHER_PROTOCOLS = {
    "udp",
    "icmp",
    "sctp",
    "dccp",
    "udplite",
    "rt",
    "frag",
    "ah",
    "esp",
    "mh",
    "dst",
    "hbh",
    "ipcomp",
}
_LAST_PORT = 65535


def unknown_match(module: str) -> Test:
    """The test for a module whose options are not read."""
    if module in _OTHER_PROTOCOLS:
        return lambda packet: False
    return lambda packet: None


def option_test(module: str, option: str, values: Sequence[str], is_negated: bool) -> Test:
    """The test for an option of a module, "" for options of every rule; `is_negated`: after a "!"."""
    try:
        test = _parse_test(module, option, values)
    except (ValueError, IndexError, KeyError):  # KeyError: a flag that no table here has
        test = None
    if test is None:
        return lambda packet: None
    known_test: Test = test
    return (lambda packet: negate(known_test(packet))) if is_negated else known_test


def _parse_test(module: str, option: str, values: Sequence[str]) -> Optional[Test]:
    if not module:
        # The options that every rule may have.
        if option in ("-s", "-d"):
            return _address_test(option == "-s", parse_address(values[0]))
        if option == "-p":
            text = values[0]
            protocol = 0 if text == "all" else PROTOCOLS[text] if text in PROTOCOLS else int(text)
            return lambda packet: protocol in (0, packet.protocol)
        if option in ("-i", "-o"):
            name = values[0]
            return lambda packet: matches_name(
                packet.iif if option == "-i" else packet.oif, name, any_end="+"
            )
        if option == "-f":  # only later fragments: no handshake has any
            return lambda packet: False
        return None
    if module in ("tcp", "multiport"):
        return _parse_port_test(option, values)
    if module in ("mark", "connmark") and option == "--mark":
        return _mark_test(values[0], connection=module == "connmark")
    return _parse_other(module, option, values)


def _parse_other(module: str, option: str, values: Sequence[str]) -> Optional[Test]:
    if module == "comment":
        return lambda packet: True
    if option == "--icmpv6-type":
        kind = int(values[0].partition("/")[0])
        return lambda packet: packet.protocol == ICMPV6 and is_among(packet.flags, ((kind, kind),))
    if option in ("--ctstate", "--state"):
        states = values[0].lower().split(",")

        def in_state(packet: Packet) -> Truth:
            has_state = matches_words(packet.states, states)
            return has_state if has_state or packet.translated is False else None

        return in_state
    if module == "addrtype":
        return _address_type_test(option, values[0])
    if module == "iprange":
        low, high = (parse_address(end)[0][0] for end in values[0].split("-"))
        return _address_test(option == "--src-range", ((low, high),))
    if module == "pkttype":
        return lambda packet: values[0] == "unicast" if packet.protocol == TCP and packet.iif else None
    if module == "rpfilter" and option == "--invert":
        # --invert matches a packet whose reply would leave by another interface. Ours was given the interface
        # by the route back to its sender; a mark may select another routing table.
        return lambda packet: False if packet.protocol == TCP and packet.iif and packet.mark == ZERO else None
    return None


def _address_test(source: bool, expected: Ranges) -> Test:
    return lambda packet: is_among(packet.source if source else packet.destination, expected)


def _parse_port_test(option: str, values: Sequence[str]) -> Optional[Test]:
    """Returns the test that an option about ports or TCP flags stands for; None for any other option."""
    if option == "--syn":  # short for this pair (iptables-extensions(8), tcp)
        return _test_flags("FIN,SYN,RST,ACK", "SYN")
    if option == "--tcp-flags":
        mask_names, required = values[:2]
        return _test_flags(mask_names, required)
    if option in ("--dport", "--sport", "--dports", "--sports", "--ports"):
        return _test_ports(option, values[0])
    return None


def _test_flags(mask_names: str, required: str) -> Test:
    # Here, not for each packet: a name that is unknown must make the rule unknown, and not end the check.
    mask, bits = _flag_bits(mask_names), _flag_bits(required)

    def has_flags(packet: Packet) -> Truth:
        if packet.protocol != TCP:
            return False
        # The answer is known only if all flags that the packet may have give the same one.
        truths = {flags & mask == bits for flags in list_values(packet.flags) or []}
        return truths.pop() if len(truths) == 1 else None

    return has_flags


def _test_ports(option: str, text: str) -> Test:
    """`text`: "60000", "60000:60015", or several of these with commas."""
    spans = []
    for part in text.split(","):
        low, colon, high = part.partition(":")
        spans.append((int(low or 0), int(high or _LAST_PORT) if colon else int(low)))
    expected = join_ranges(spans)

    def test(packet: Packet) -> Truth:
        if packet.protocol != TCP:
            return False
        if option.startswith("--d"):
            return is_among(packet.destination_port, expected)
        if option.startswith("--s"):
            return is_among(packet.source_port, expected)
        return any_true(is_among(ports, expected) for ports in (packet.destination_port, packet.source_port))

    return test


def _flag_bits(text: str) -> int:
    if text in ("ALL", "NONE"):
        return 0x3F if text == "ALL" else 0  # FIN, SYN, RST, PSH, ACK and URG; not ECE and CWR
    return combine_bits(TCP_FLAGS[name.lower()] for name in text.split(","))


def _address_type_test(option: str, kinds: str) -> Optional[Test]:
    """Test the type of an address: the destination is ours, the source certainly is not."""
    if option == "--dst-type":
        ours = "LOCAL" in kinds.split(",")
        return lambda packet: ours if packet.protocol == TCP and packet.original else None
    if option == "--src-type" and set(kinds.split(",")) <= {"LOCAL", "BROADCAST", "MULTICAST"}:
        return lambda packet: False if packet.protocol == TCP and packet.original else None
    return None


def _mark_test(text: str, connection: bool) -> Test:
    value, _slash, mask = text.partition("/")
    expected, bits = int(value, 0), int(mask or "0xffffffff", 0)

    def test(packet: Packet) -> Truth:
        possible_marks = list_values(packet.connection_mark if connection else packet.mark)
        truths = {number & bits == expected for number in possible_marks or ()}
        return next(iter(truths)) if len(truths) == 1 else None

    return test
