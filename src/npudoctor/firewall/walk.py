"""Sends a packet through rule sets and says what may become of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.firewall.packet import Packet, merge, spoil
from npudoctor.firewall.rules import (
    CONTINUE,
    ODD_OUTPUT_ERRORS,
    UNKNOWN,
    Chain,
    Condition,
    PacketChange,
    Rule,
    RuleTable,
    Verdict,
)

# nf_tables refuses more than 16 nested jumps (NFT_JUMP_STACK_SIZE); only a listing that lies comes here.
MAX_JUMPS = 64
MAX_PLACES = 4  # places of a drop that are remembered, and shown
# NF_IP_PRI_CONNTRACK: chains of a lower priority see packets before conntrack has given them a state.
CONNTRACK = -200


class OutOfTime(Exception):
    """The time for judging has run out before the last rule."""


@dataclass(frozen=True)
class Fate:
    """What may become of a packet in a chain; several of these may be possible at once.

    `accepted`: the packet as it is let through, None if it cannot be. `droppers`: the places that may drop
    it. `rest`: the packet as it reaches the end of the chain, None if it cannot. `doubts`: the rules that
    could not be judged for it. `by_port`: with fewer ports they might be.
    """

    accepted: Optional[Packet] = None
    droppers: tuple[str, ...] = ()
    rest: Optional[Packet] = None
    doubts: tuple[str, ...] = ()
    by_port: bool = False


class TableWalk:
    """Walks packets through the chains of one table; each pair of chain and packet is worked out once.

    `late()` says whether the time has run out; the walk then raises OutOfTime.
    """

    def __init__(self, table: RuleTable, late: Callable[[], bool] = lambda: False) -> None:
        self._table, self._is_late = table, late
        self._fate_by_packet: dict[tuple[str, Packet], Fate] = {}

    @property
    def visited_chains(self) -> set[str]:
        """The names of the chains that packets have reached."""
        return {name for name, _packet in self._fate_by_packet}

    def walk_base_chain(self, chain: Chain, packet: Packet) -> Fate:
        """What a base chain does with a packet; its policy decides about `rest`, which is then None."""
        fate = self._walk_chain(chain.name, packet, 0)
        if fate.rest is None:
            return fate
        if chain.base is not None and chain.base.drops:
            policy = f"{self._table.describe_chain(chain.name)}: policy drop"
            return replace(fate, rest=None, droppers=_limit_places((*fate.droppers, policy)))
        return replace(fate, rest=None, accepted=merge((fate.accepted, fate.rest)))

    def _walk_chain(self, name: str, packet: Packet, depth: int) -> Fate:
        key = (name, packet)
        if key not in self._fate_by_packet:
            chain = self._table.chains.get(name)
            if chain is None or depth > MAX_JUMPS:
                place = self._table.describe_chain(name)
                return Fate(packet, (place,), packet, (place,))
            self._fate_by_packet[key] = self._walk_rules(chain, packet, depth)
        return self._fate_by_packet[key]

    def _walk_rules(self, chain: Chain, packet: Packet, depth: int) -> Fate:
        continuing: Optional[Packet] = packet
        accepted: list[Optional[Packet]] = []
        returned: list[Optional[Packet]] = []
        droppers: tuple[str, ...] = ()
        doubts: tuple[str, ...] = ()
        by_port = False
        for rule in chain.rules:
            if continuing is None:
                break
            if self._is_late():
                raise OutOfTime
            rule_walk = _RuleWalk(self, chain, rule, depth)
            continuing = rule_walk.send(continuing)
            accepted.append(rule_walk.accepted)
            returned.append(rule_walk.returned)
            droppers = _limit_places((*droppers, *rule_walk.droppers))
            doubts = _limit_places((*doubts, *rule_walk.doubts))
            by_port = by_port or rule_walk.by_port
        return Fate(merge(accepted), droppers, merge((*returned, continuing)), doubts, by_port)

    def walk_jump(self, verdict: Verdict, packet: Packet, depth: int) -> Fate:
        """What the chain that a jump or goto names does with the packet."""
        return self._walk_chain(verdict[1], packet, depth + 1)

    def describe_rule(self, chain: Chain, rule: Rule) -> str:
        """The table, chain and rule, as a person finds them in a listing."""
        return f"{self._table.describe_chain(chain.name)}: {rule.text}"


class _RuleWalk:
    """Applies one rule to one packet and collects where the packet may go from there."""

    def __init__(self, walk: TableWalk, chain: Chain, rule: Rule, depth: int) -> None:
        self._walk, self._chain, self._rule, self._depth = walk, chain, rule, depth
        self.accepted: Optional[Packet] = None
        self.returned: Optional[Packet] = None
        self.droppers: tuple[str, ...] = ()
        self.doubts: tuple[str, ...] = ()
        self.by_port = False
        self._continuing: list[Packet] = []

    def send(self, packet: Packet) -> Optional[Packet]:
        """The packet as it may reach the next rule; None if it cannot."""
        current: Optional[Packet] = packet
        is_doubtful = False
        for step in self._rule.steps:
            if current is None:
                break
            if isinstance(step, Condition):
                try:
                    truth = step.test(current)
                except ODD_OUTPUT_ERRORS:
                    truth = None
                self._note_port_question(step.ports, current, truth is None)
                if truth is not True:
                    self._continuing.append(current)
                is_doubtful = is_doubtful or truth is None
                current = None if truth is False else current
            elif isinstance(step, PacketChange):
                try:
                    current = step.apply(current)
                except ODD_OUTPUT_ERRORS:
                    current = spoil(current)
            else:
                try:
                    verdicts = step.pick(current)
                except ODD_OUTPUT_ERRORS:
                    verdicts = (UNKNOWN,)
                self._note_port_question(step.ports, current, len(verdicts) > 1)
                is_doubtful = is_doubtful or len(verdicts) > 1 or UNKNOWN in verdicts
                for verdict in verdicts:
                    self._apply_verdict(verdict, current)
                if is_doubtful:
                    self.doubts = _limit_places(
                        (*self.doubts, self._walk.describe_rule(self._chain, self._rule))
                    )
                if CONTINUE not in verdicts:  # else the rule's next part is looked at
                    current = None
        if current is not None:
            self._continuing.append(current)
        return merge(self._continuing)

    def _note_port_question(self, ports: str, packet: Packet, unclear: bool) -> None:
        """Note an unclear step that reads our port: the destination on the way in, else the source."""
        self.by_port = self.by_port or (unclear and ("d" if packet.original else "s") in ports)

    def _apply_verdict(self, verdict: Optional[Verdict], packet: Packet) -> None:
        kind = verdict[0] if verdict else "continue"
        if verdict and kind in ("jump", "goto"):
            fate = self._walk.walk_jump(verdict, packet, self._depth)
            self.accepted = merge((self.accepted, fate.accepted))
            self.droppers = _limit_places((*self.droppers, *fate.droppers))
            self.doubts = _limit_places((*self.doubts, *fate.doubts))
            self.by_port = self.by_port or fate.by_port
            if fate.rest is not None and kind == "jump":
                self._continuing.append(fate.rest)
            elif fate.rest is not None:
                # After a goto the kernel does not come back to the chain that it left.
                self.returned = merge((self.returned, fate.rest))
            return
        if kind in ("accept", "unknown"):
            self.accepted = merge((self.accepted, packet))
        if kind in ("drop", "unknown"):
            self.droppers = _limit_places((*self.droppers, self._walk.describe_rule(self._chain, self._rule)))
        if verdict is None or kind == "unknown":
            self._continuing.append(packet)
        if kind == "return":
            self.returned = merge((self.returned, packet))


def _limit_places(places: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(places))[:MAX_PLACES]
