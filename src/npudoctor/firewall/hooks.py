"""Sends a connection's packets through all tables of the kernel: open, blocked, or unknown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.firewall.packet import (
    ACK,
    ICMPV6,
    SYN_ACK,
    Packet,
    Ranges,
    all_addresses,
    merge,
    parse_address,
    to_ranges,
)
from npudoctor.firewall.rules import Chain, RuleTable
from npudoctor.firewall.walk import CONNTRACK, Fate, OutOfTime, TableWalk

Hooks = tuple[str, ...]

# The hooks on the way of a packet, in the kernel's order.
IN: Hooks = ("ingress", "prerouting", "input")
OUT: Hooks = ("output", "postrouting", "egress")
_SOLICIT, _ADVERTISE = 135, 136  # types of ICMPv6: neighbour solicitation and advertisement, RFC 4861
# States of the packets that conntrack tracks, and of those that it saw only a part of.
_ESTABLISHED, _INVALID = frozenset({"established"}), frozenset({"invalid"})
_ANY_STATE = _ESTABLISHED | _INVALID | {"new"}
_OTHER_LAYERS = ("bridge", "arp")  # they may see what carries the connection; in which form is not known


@dataclass(frozen=True)
class PortVerdict:
    """What the firewall does with new connections to a port or a range of ports.

    `answer`: open, blocked or unknown. `places`: the rules and policies that drop a packet, or that may.
    `entering` and `leaving`: those of them that drop the caller's packets, and those that drop our replies.
    `by_port`: a verdict for fewer ports may be known. `late`: no time was left to judge.
    """

    answer: str
    places: tuple[str, ...] = ()
    entering: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    by_port: bool = False
    late: bool = False


@dataclass(frozen=True)
class Hook:
    """A chain at a hook, with the walk through its table."""

    walk: TableWalk
    table: RuleTable
    chain: Chain
    priority: int


class Firewall:
    """All tables of one network namespace. `late()` says whether the time for judging has run out."""

    def __init__(self, tables: Sequence[RuleTable], late: Callable[[], bool] = lambda: False) -> None:
        self._is_late = late
        self._walks = [(table, TableWalk(table, late)) for table in tables]

    @property
    def visited_chains(self) -> set[str]:
        """The names of the chains that the packets judged so far have reached."""
        return {name for _table, walk in self._walks for name in walk.visited_chains}

    def judge(self, first: Packet, bridged: bool = False) -> PortVerdict:
        """Returns the verdict on a new connection that begins with this packet.

        Raises OutOfTime if none was reached in time. A packet that is dropped for certain is a verdict even
        then, because no rule that was not evaluated can let it in again.

        `bridged`: the packet may come through a bridge, whose ports have rules of their own.
        """
        trip = _Connection(self, bridged)
        try:
            trip.send_packets(first)
        except OutOfTime:
            if not trip.is_dropped:
                raise
        if trip.is_dropped:
            entering, leaving = _drop_duplicates(trip.entering), _drop_duplicates(trip.leaving)
            return PortVerdict("blocked", _drop_duplicates((*entering, *leaving)), entering, leaving)
        fates = trip.fates
        if any(fate.droppers for fate in fates):
            # A rule may drop a packet: name the rules that could not be judged, which decide it.
            doubts = [place for fate in fates if fate.droppers for place in fate.doubts or fate.droppers]
            return PortVerdict(
                "unknown", _drop_duplicates(doubts), by_port=any(fate.by_port for fate in fates)
            )
        return PortVerdict("open")

    def send(
        self, packet: Packet, hooks: Sequence[str], bridged: bool
    ) -> tuple[Packet, list[Fate], list[str]]:
        """The packet as it leaves these hooks, its fates, and every place that certainly drops it.

        A packet that one place drops still goes on to the next one: whoever opens the first must then
        open the second as well.
        """
        fates: list[Fate] = []
        dropped: list[str] = []
        true_states = packet.states
        for name in hooks:
            hooks_here = sorted(self._find_hooks(name, packet, bridged), key=lambda hook: hook.priority)
            for priority, chains in groupby(hooks_here, key=lambda hook: hook.priority):
                has_state = name in ("input", "postrouting", "egress") or (
                    name != "ingress" and priority > CONNTRACK
                )
                packet = replace(
                    packet,
                    states=_visible_states(packet, true_states) if has_state else frozenset({"invalid"}),
                )
                # Only the first packet of a tracked connection meets the rules of nat.
                nat_counts = (
                    packet.original
                    and packet.untracked is not True
                    and bool(packet.states & {"new", "invalid"})
                )
                passed, chain_fates = _walk_equal_priority(list(chains), packet, nat_counts)
                fates += chain_fates
                dropped += (
                    _drop_duplicates(place for fate in chain_fates for place in fate.droppers)
                    if passed is None
                    else ()
                )
                packet = packet if passed is None else passed
        return replace(packet, states=_visible_states(packet, true_states)), fates, dropped

    def _find_hooks(self, name: str, packet: Packet, bridged: bool) -> Iterator[Hook]:
        for table, walk in self._walks:
            if table.family in ("bridge", "arp"):
                applies = bridged if table.family == "bridge" else not packet.ipv6
            else:
                applies = table.family in ("netdev", "inet", "ip6" if packet.ipv6 else "ip")
            if not applies:
                continue
            for chain in table.chains.values():
                base = chain.base
                if base is None or base.hook != name:
                    continue
                # A chain of a device may not see the packet; others always do.
                sees = base.hook not in ("ingress", "egress") or (
                    base.device is not None and base.device in (packet.iif or packet.oif or "",)
                )
                sure = table.sure and table.family not in _OTHER_LAYERS and sees
                yield Hook(
                    walk if sure else _DoubtfulTableWalk(table, self._is_late), table, chain, base.priority
                )


class _Connection:
    """Sends the packets of one connection through the firewall and collects what drops them.

    Results are kept while it goes on: a drop that is certain counts even if the time runs out later.
    """

    def __init__(self, firewall: Firewall, bridged: bool) -> None:
        self._firewall, self._bridged = firewall, bridged
        self.fates: list[Fate] = []
        self.entering: list[str] = []
        self.leaving: list[str] = []

    @property
    def is_dropped(self) -> bool:
        """Whether a packet without which there is no connection is certainly dropped."""
        return bool(self.entering or self.leaving)

    def send_packets(self, first: Packet) -> None:
        """Send the handshake both ways, the data both ways, and for IPv6 the neighbour discovery."""
        through = self._send(first, IN)
        answer = self._send(_make_reply(through), OUT)
        # The packets that complete the connection and carry its data. Where conntrack missed one of those
        # before, it may take it for a new connection.
        is_tracked = through.untracked is False and answer.untracked is False
        later = replace(
            through,
            flags=ACK,
            states=_ESTABLISHED if is_tracked else _ANY_STATE,
            untracked=False,
            mark=((0, 0),),
        )
        self._send(later, IN)
        self._send(replace(_make_reply(through), flags=ACK, states=later.states), OUT)
        if not first.ipv6:
            return
        # How the two find each other on an IPv6 link (RFC 4861): a solicitation to the address or to its
        # solicited-node group (RFC 4291, ff02::1:ffXX:XXXX), and an advertisement, either way. conntrack
        # marks these packets as untracked (nf_conntrack_proto_icmpv6.c).
        anybody: Ranges = all_addresses(ipv6=True)
        group = parse_address("ff02::1:ff00:0/104")
        question = replace(
            first, protocol=ICMPV6, flags=to_ranges([_SOLICIT]), states=frozenset({"untracked"}),
            mark=((0, 0),), source=anybody, destination=(*first.destination, *group), untracked=True,
        )  # fmt: skip
        answer = replace(question, flags=to_ranges([_ADVERTISE]), destination=anybody)
        for packet in (question, answer):
            back = replace(packet, source=anybody, destination=anybody, iif="", oif=first.iif)
            self.fates += self._firewall.send(packet, IN, self._bridged)[1]
            self.fates += self._firewall.send(back, OUT, self._bridged)[1]

    def _send(self, packet: Packet, hooks: Hooks) -> Packet:
        passed, fates, dropped = self._firewall.send(packet, hooks, self._bridged)
        self.fates += fates
        if hooks == OUT:
            self.leaving += dropped
        else:
            self.entering += dropped
        return passed


class _DoubtfulTableWalk(TableWalk):
    """A table that may or may not see the packet: what it drops may also get through."""

    def walk_base_chain(self, chain: Chain, packet: Packet) -> Fate:
        fate = super().walk_base_chain(chain, packet)
        doubts = fate.doubts or fate.droppers
        return replace(fate, accepted=merge((fate.accepted, packet)), doubts=doubts)


def _walk_equal_priority(
    hooks: Sequence[Hook], packet: Packet, nat: bool
) -> tuple[Optional[Packet], list[Fate]]:
    """Send a packet through chains of one priority; None for the packet if one of them drops it.

    The kernel runs them in the order of their registration, which no listing shows: where one of them
    changes the packet, each is also given the changed one.
    """
    counted = [hook for hook in hooks if nat or hook.chain.base is None or hook.chain.base.kind != "nat"]
    fates = [hook.walk.walk_base_chain(hook.chain, packet) for hook in counted]
    changed = merge((packet, *(fate.accepted for fate in fates)))
    if len(counted) > 1 and changed is not None and changed != packet:
        fates = [hook.walk.walk_base_chain(hook.chain, changed) for hook in counted]
    if any(fate.accepted is None for fate in fates):
        return None, [fate for fate in fates if fate.accepted is None]
    if len(counted) == 1:
        return fates[0].accepted, fates
    return (merge(fate.accepted for fate in fates) or packet), fates


def _visible_states(packet: Packet, real: frozenset[str]) -> frozenset[str]:
    """The states that a rule may read once conntrack has had its turn with the packet."""
    if packet.untracked is None:
        return real | {"untracked"}
    return frozenset({"untracked"}) if packet.untracked else real


def _make_reply(first: Packet) -> Packet:
    """The answer to the first packet, as it leaves."""
    return replace(
        first,
        source=first.destination,
        destination=first.source,
        source_port=first.destination_port,
        destination_port=first.source_port,
        iif="",
        oif=first.iif,
        flags=SYN_ACK,
        states=_ESTABLISHED
        if first.untracked is False
        else _ESTABLISHED | {"invalid"}
        if not first.untracked
        else _INVALID,
        untracked=False,
        original=False,
        mark=((0, 0),),
    )


def _drop_duplicates(places: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(places))
