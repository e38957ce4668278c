"""Sends a packet through rule sets and says what may become of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.firewall.packet import Packet, merge, spoil
from npudoctor.firewall.rules import (
    CONTINUE,
    ODD,
    UNKNOWN,
    Chain,
    Change,
    Match,
    Rule,
    Table,
    Verdict,
)

DEEPEST = 64  # jumps; the kernel allows 16
TOLD = 4  # places that are remembered
CONNTRACK = -200  # the priority at which packets get their state


class OutOfTime(Exception):
    """There is no time for so many rules."""


@dataclass(frozen=True)
class Fate:
    """What may become of a packet: let through as `accepted`, dropped by one of `droppers`, or come out
    at the chain's end as `rest`. `doubts` are the rules that nobody can judge for it; `by_port`: fewer ports
    may be judged where these cannot."""

    accepted: Optional[Packet] = None
    droppers: tuple[str, ...] = ()
    rest: Optional[Packet] = None
    doubts: tuple[str, ...] = ()
    by_port: bool = False


class TableWalk:
    """The way of packets through tables; what a chain does with a packet is worked out once."""

    def __init__(self, table: Table, late: Callable[[], bool] = lambda: False) -> None:
        self._table, self._late = table, late
        self._known: dict[tuple[str, Packet], Fate] = {}

    @property
    def visited(self) -> set[str]:
        """The chains that packets came to."""
        return {name for name, _packet in self._known}

    def base(self, chain: Chain, packet: Packet) -> Fate:
        """What a base chain does with a packet; nothing is left as `rest`."""
        fate = self._chain(chain.name, packet, 0)
        if fate.rest is None:
            return fate
        if chain.base is not None and chain.base.drops:
            policy = f"{self._table.place(chain.name)}: policy drop"
            return replace(fate, rest=None, droppers=_some((*fate.droppers, policy)))
        return replace(fate, rest=None, accepted=merge((fate.accepted, fate.rest)))

    def _chain(self, name: str, packet: Packet, depth: int) -> Fate:
        key = (name, packet)
        if key not in self._known:
            chain = self._table.chains.get(name)
            if chain is None or depth > DEEPEST:
                place = self._table.place(name)
                return Fate(packet, (place,), packet, (place,))
            self._known[key] = self._rules(chain, packet, depth)
        return self._known[key]

    def _rules(self, chain: Chain, packet: Packet, depth: int) -> Fate:
        here: Optional[Packet] = packet
        through: list[Optional[Packet]] = []
        returned: list[Optional[Packet]] = []
        droppers: tuple[str, ...] = ()
        doubts: tuple[str, ...] = ()
        by_port = False
        for rule in chain.rules:
            if here is None:
                break
            if self._late():
                raise OutOfTime
            way = _OneRule(self, chain, rule, depth)
            here = way.send(here)
            through.append(way.accepted)
            returned.append(way.returned)
            droppers = _some((*droppers, *way.droppers))
            doubts = _some((*doubts, *way.doubts))
            by_port = by_port or way.by_port
        return Fate(merge(through), droppers, merge((*returned, here)), doubts, by_port)

    def below(self, verdict: Verdict, packet: Packet, depth: int) -> Fate:
        """What the chain of a jump does."""
        return self._chain(verdict[1], packet, depth + 1)

    def place(self, chain: Chain, rule: Rule) -> str:
        """How a person finds a rule."""
        return f"{self._table.place(chain.name)}: {rule.text}"


class _OneRule:
    """One packet at one rule: where it may go from here."""

    def __init__(self, walk: TableWalk, chain: Chain, rule: Rule, depth: int) -> None:
        self._walk, self._chain, self._rule, self._depth = walk, chain, rule, depth
        self.accepted: Optional[Packet] = None
        self.returned: Optional[Packet] = None
        self.droppers: tuple[str, ...] = ()
        self.doubts: tuple[str, ...] = ()
        self.by_port = False
        self._on: list[Packet] = []

    def send(self, packet: Packet) -> Optional[Packet]:
        """The packet as it may reach the next rule; None where it cannot."""
        inside: Optional[Packet] = packet
        doubtful = False
        for step in self._rule.steps:
            if inside is None:
                break
            if isinstance(step, Match):
                try:
                    truth = step.test(inside)
                except ODD:
                    truth = None
                self._note(step.ports, inside, truth is None)
                if truth is not True:
                    self._on.append(inside)
                doubtful = doubtful or truth is None
                inside = None if truth is False else inside
            elif isinstance(step, Change):
                try:
                    inside = step.apply(inside)
                except ODD:
                    inside = spoil(inside)
            else:
                try:
                    verdicts = step.pick(inside)
                except ODD:
                    verdicts = (UNKNOWN,)
                self._note(step.ports, inside, len(verdicts) > 1)
                doubtful = doubtful or len(verdicts) > 1 or UNKNOWN in verdicts
                for verdict in verdicts:
                    self._take(verdict, inside)
                if doubtful:
                    self.doubts = _some((*self.doubts, self._walk.place(self._chain, self._rule)))
                if CONTINUE not in verdicts:  # else the rule's next part is looked at
                    inside = None
        if inside is not None:
            self._on.append(inside)
        return merge(self._on)

    def _note(self, ports: str, packet: Packet, unclear: bool) -> None:
        """A question about our port, which is the destination's on the way in."""
        self.by_port = self.by_port or (unclear and ("d" if packet.original else "s") in ports)

    def _take(self, verdict: Optional[Verdict], packet: Packet) -> None:
        kind = verdict[0] if verdict else "continue"
        if verdict and kind in ("jump", "goto"):
            fate = self._walk.below(verdict, packet, self._depth)
            self.accepted = merge((self.accepted, fate.accepted))
            self.droppers = _some((*self.droppers, *fate.droppers))
            self.doubts = _some((*self.doubts, *fate.doubts))
            self.by_port = self.by_port or fate.by_port
            if fate.rest is not None and kind == "jump":
                self._on.append(fate.rest)
            elif fate.rest is not None:
                # The end of a chain that was gone to is the end of the one that sent there.
                self.returned = merge((self.returned, fate.rest))
            return
        if kind in ("accept", "unknown"):
            self.accepted = merge((self.accepted, packet))
        if kind in ("drop", "unknown"):
            self.droppers = _some((*self.droppers, self._walk.place(self._chain, self._rule)))
        if verdict is None or kind == "unknown":
            self._on.append(packet)
        if kind == "return":
            self.returned = merge((self.returned, packet))


def _some(places: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(places))[:TOLD]
