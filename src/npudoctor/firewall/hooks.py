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
    everything,
    merge,
    of_address,
    single,
)
from npudoctor.firewall.rules import Chain, Table
from npudoctor.firewall.walk import CONNTRACK, Fate, OutOfTime, TableWalk

Hooks = tuple[str, ...]

IN: Hooks = ("ingress", "prerouting", "input")
OUT: Hooks = ("output", "postrouting", "egress")
_SOLICIT, _ADVERTISE = 135, 136
_KNOWN, _LOST = frozenset({"established"}), frozenset({"invalid"})
_ANY_STATE = _KNOWN | _LOST | {"new"}
_OTHER_LAYERS = ("bridge", "arp")  # they may see what carries the connection; in which form is not known


@dataclass(frozen=True)
class PortVerdict:
    """`answer`: open, blocked or unknown; `places`: all that drop it, or what may; `entering` and
    `leaving`: which of them drop what comes in, and our answers on the way out; `by_port`: of fewer ports
    more may be known; `late`: no time was left to judge."""

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
    table: Table
    chain: Chain
    priority: int


class Firewall:
    """All tables of one network namespace. `bridged`: the interface may be a bridge, whose ports have
    rules of their own."""

    def __init__(self, tables: Sequence[Table], late: Callable[[], bool] = lambda: False) -> None:
        self._late = late
        self._walks = [(table, TableWalk(table, late)) for table in tables]

    @property
    def visited(self) -> set[str]:
        """The names of the chains that what was judged came to."""
        return {name for _table, walk in self._walks for name in walk.visited}

    def judge(self, first: Packet, bridged: bool = False) -> PortVerdict:
        """What becomes of a new connection whose first packet this is."""
        trip = _Trip(self, bridged)
        try:
            trip.go(first)
        except OutOfTime:
            if not trip.dropped:
                raise
        if trip.dropped:
            entering, leaving = _unique(trip.entering), _unique(trip.leaving)
            return PortVerdict("blocked", _unique((*entering, *leaving)), entering, leaving)
        fates = trip.fates
        if any(fate.droppers for fate in fates):
            # Where it is decided by what we do not know.
            doubts = [place for fate in fates if fate.droppers for place in fate.doubts or fate.droppers]
            return PortVerdict("unknown", _unique(doubts), by_port=any(fate.by_port for fate in fates))
        return PortVerdict("open")

    def send(
        self, packet: Packet, hooks: Sequence[str], bridged: bool
    ) -> tuple[Packet, list[Fate], list[str]]:
        """The packet as it comes out of these hooks, and what surely drops it on its way there: whoever lets
        it through at one place must know of the next."""
        fates: list[Fate] = []
        dropped: list[str] = []
        real = packet.states
        for name in hooks:
            here = sorted(self._hooks(name, packet, bridged), key=lambda hook: hook.priority)
            for priority, chains in groupby(here, key=lambda hook: hook.priority):
                seen = name in ("input", "postrouting", "egress") or (
                    name != "ingress" and priority > CONNTRACK
                )
                packet = replace(packet, states=_states(packet, real) if seen else frozenset({"invalid"}))
                # Only the first packet of a tracked connection meets the rules of nat.
                nat_counts = (
                    packet.original
                    and packet.untracked is not True
                    and bool(packet.states & {"new", "invalid"})
                )
                passed, more = _together(list(chains), packet, nat_counts)
                fates += more
                dropped += (
                    _unique(place for fate in more for place in fate.droppers) if passed is None else ()
                )
                packet = packet if passed is None else passed
        return replace(packet, states=_states(packet, real)), fates, dropped

    def _hooks(self, name: str, packet: Packet, bridged: bool) -> Iterator[Hook]:
        for table, walk in self._walks:
            if table.family in ("bridge", "arp"):
                concerned = bridged if table.family == "bridge" else not packet.ipv6
            else:
                concerned = table.family in ("netdev", "inet", "ip6" if packet.ipv6 else "ip")
            if not concerned:
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
                yield Hook(walk if sure else _Perhaps(table, self._late), table, chain, base.priority)


class _Trip:
    """One connection's packets through the firewall: what surely drops one of them, what else became of
    them. Kept as it goes, as the time may run out."""

    def __init__(self, firewall: Firewall, bridged: bool) -> None:
        self._firewall, self._bridged = firewall, bridged
        self.fates: list[Fate] = []
        self.entering: list[str] = []
        self.leaving: list[str] = []

    @property
    def dropped(self) -> bool:
        """Whether the connection surely does not come about."""
        return bool(self.entering or self.leaving)

    def go(self, first: Packet) -> None:
        """There, back, there again; and how the two find each other."""
        through = self._send(first, IN)
        answer = self._send(_reply(through), OUT)
        # The packets that complete the connection and carry its data. Where conntrack missed one of those
        # before, it may take it for a new connection.
        known = through.untracked is False and answer.untracked is False
        later = replace(
            through, flags=ACK, states=_KNOWN if known else _ANY_STATE, untracked=False, mark=((0, 0),)
        )
        self._send(later, IN)
        self._send(replace(_reply(through), flags=ACK, states=later.states), OUT)
        if not first.ipv6:
            return
        # How the two find each other on an IPv6 link: a question and its answer, either way.
        anybody: Ranges = everything(ipv6=True)
        group = of_address("ff02::1:ff00:0/104")
        question = replace(
            first, protocol=ICMPV6, flags=single([_SOLICIT]), states=frozenset({"untracked"}), mark=((0, 0),),
            source=anybody, destination=(*first.destination, *group), untracked=True,
        )  # fmt: skip
        answer = replace(question, flags=single([_ADVERTISE]), destination=anybody)
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


class _Perhaps(TableWalk):
    """A table of which it is not known whether it sees the packet."""

    def base(self, chain: Chain, packet: Packet) -> Fate:
        fate = super().base(chain, packet)
        doubts = fate.doubts or fate.droppers
        return replace(fate, accepted=merge((fate.accepted, packet)), doubts=doubts)


def _together(hooks: Sequence[Hook], packet: Packet, nat: bool) -> tuple[Optional[Packet], list[Fate]]:
    """Chains of the same priority, whose order nobody knows."""
    counted = [hook for hook in hooks if nat or hook.chain.base is None or hook.chain.base.kind != "nat"]
    fates = [hook.walk.base(hook.chain, packet) for hook in counted]
    changed = merge((packet, *(fate.accepted for fate in fates)))
    if len(counted) > 1 and changed is not None and changed != packet:
        fates = [hook.walk.base(hook.chain, changed) for hook in counted]
    if any(fate.accepted is None for fate in fates):
        return None, [fate for fate in fates if fate.accepted is None]
    if len(counted) == 1:
        return fates[0].accepted, fates
    return (merge(fate.accepted for fate in fates) or packet), fates


def _states(packet: Packet, real: frozenset[str]) -> frozenset[str]:
    if packet.untracked is None:
        return real | {"untracked"}
    return frozenset({"untracked"}) if packet.untracked else real


def _reply(first: Packet) -> Packet:
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
        states=_KNOWN if first.untracked is False else _KNOWN | {"invalid"} if not first.untracked else _LOST,
        untracked=False,
        original=False,
        mark=((0, 0),),
    )


def _unique(places: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(places))
