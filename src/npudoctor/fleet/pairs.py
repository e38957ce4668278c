"""Summarises which nodes reach which: the results of all ordered pairs of nodes.

An attempt is one TCP connection from one node to one port of another. A port on which a node could not
listen because another process holds it is not tried: `hccl-ports` on that node names the holder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass, field

Ports = frozenset[int]


@dataclass(frozen=True)
class NodeConnections:
    """The result of one node. `bound`: the ports on which it listened; `held`: by port, why it could not.

    `failed`: by target node, the ports that could not be reached and the reason for the first of them.
    `error`: why the node took no part; None when it did.
    """

    node: str
    bound: Ports = frozenset()
    held: Mapping[int, str] = field(default_factory=dict)
    failed: Mapping[str, tuple[Ports, str]] = field(default_factory=dict)
    error: Optional[str] = None


@dataclass(frozen=True)
class BlockedAttempts:
    """Attempts that failed for one reason: from each of `sources` to each of `targets`, on these ports."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    ports: Ports
    reason: str


@dataclass(frozen=True)
class Reachability:
    """The result of all pairs. `attempts`: how many connections were tried.

    `deaf`: by node that no other reaches, the reason; `mute`: by node that reaches no other, the reason;
    `blocked`: the failed attempts that neither explains.
    """

    connections: tuple[NodeConnections, ...]
    attempts: int
    deaf: Mapping[str, str]
    mute: Mapping[str, str]
    blocked: tuple[BlockedAttempts, ...]

    @property
    def absent_nodes(self) -> tuple[NodeConnections, ...]:
        """The nodes that took no part."""
        return tuple(side for side in self.connections if side.error is not None)

    @property
    def exit_code(self) -> int:
        """0: all reach all; 1: some pair failed or a port is held; 2: a node took no part."""
        if self.deaf or self.mute or self.blocked or any(side.held for side in self.connections):
            return 1
        return 2 if self.absent_nodes else 0


def judge_reachability(sides: Sequence[NodeConnections]) -> Reachability:
    """Summarise the results of the nodes into deaf nodes, mute nodes, and the remaining blocked attempts."""
    participants = {side.node: side for side in sides if side.error is None}
    failed = {
        (side.node, target): failure
        for side in participants.values()
        for target, failure in side.failed.items()
        if target in participants and failure[0]
    }
    # Deaf nodes first; a node is mute only when it fails to reach nodes that accept connections at all. Deaf
    # nodes are then computed again without the mute ones, which reach nobody and so prove nothing.
    deaf = {
        node: why
        for node in participants
        if (why := _why_cut_off(failed, participants, set(participants) - {node}, {node}))
    }
    hearing = set(participants) - set(deaf)
    mute = {
        node: why
        for node in participants
        if (why := _why_cut_off(failed, participants, {node}, hearing - {node}))
    }
    deaf = {
        node: why
        for node in deaf
        if (why := _why_cut_off(failed, participants, set(participants) - {node, *mute}, {node}))
    }
    remaining = {
        pair: failure for pair, failure in failed.items() if pair[0] not in mute and pair[1] not in deaf
    }
    attempts = sum(len(side.bound) for side in participants.values()) * max(0, len(participants) - 1)
    return Reachability(tuple(sides), attempts, deaf, mute, tuple(_fold_pairs(remaining)))


def _why_cut_off(
    failed: Mapping[tuple[str, str], tuple[Ports, str]],
    participants: Mapping[str, NodeConnections],
    sources: Collection[str],
    targets: Collection[str],
) -> Optional[str]:
    """The reason why no source reaches any target on any port; None when one does, or when there is no
    pair."""
    reasons = []
    for source in sorted(sources):
        for target in sorted(targets):
            ports, reason = failed.get((source, target), (frozenset(), ""))
            if source != target and not ports >= participants[target].bound:
                return None
            reasons.append(reason)
    return next(iter(reasons), None)


def _fold_pairs(failed: Mapping[tuple[str, str], tuple[Ports, str]]) -> Iterable[BlockedAttempts]:
    """Group failed pairs with equal ports and reason: first by source, then sources with the same targets."""
    by_source: dict[tuple[str, Ports, str], list[str]] = {}
    for (source, target), (ports, reason) in failed.items():
        by_source.setdefault((source, ports, reason), []).append(target)
    alike: dict[tuple[tuple[str, ...], Ports, str], list[str]] = {}
    for (source, ports, reason), targets in by_source.items():
        alike.setdefault((tuple(sorted(targets)), ports, reason), []).append(source)
    for (same, ports, reason), sources in sorted(alike.items(), key=lambda item: -len(item[1])):
        yield BlockedAttempts(tuple(sorted(sources)), same, ports, reason)


def port_text(ports: Iterable[int]) -> str:
    """The ports as text with ranges: `60000-60003,60010`."""
    spans: list[list[int]] = []
    for port in sorted(ports):
        if spans and port == spans[-1][1] + 1:
            spans[-1][1] = port
        else:
            spans.append([port, port])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)
