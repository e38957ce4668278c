"""Who reaches whom: what all ordered pairs of nodes answered, told as people would.

An attempt is one node's TCP connection to another's port. A node that could not listen on a port, as
something else holds it, is no target there: that is its own finding, and `hccl-ports` names the holder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass, field

Ports = frozenset[int]


@dataclass(frozen=True)
class Side:
    """What one node did. `bound`: the ports on which it listened; `held`: why it could not on the others.

    `failed`: by node, the ports that could not be reached there, and why the first could not.
    `error`: why the node took no part.
    """

    node: str
    bound: Ports = frozenset()
    held: Mapping[int, str] = field(default_factory=dict)
    failed: Mapping[str, tuple[Ports, str]] = field(default_factory=dict)
    error: Optional[str] = None


@dataclass(frozen=True)
class Blocked:
    """Attempts that failed alike: from each of these nodes to each of those, on these ports."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    ports: Ports
    reason: str


@dataclass(frozen=True)
class Reach:
    """All pairs together. `deaf`: who accepts nothing from anybody; `mute`: who reaches nobody."""

    sides: tuple[Side, ...]
    attempts: int
    deaf: Mapping[str, str]
    mute: Mapping[str, str]
    blocked: tuple[Blocked, ...]

    @property
    def silent(self) -> tuple[Side, ...]:
        """Those that took no part."""
        return tuple(side for side in self.sides if side.error is not None)

    @property
    def exit_code(self) -> int:
        """0 all reach all, 1 somebody does not, 2 a node took no part."""
        if self.deaf or self.mute or self.blocked or any(side.held for side in self.sides):
            return 1
        return 2 if self.silent else 0


def judge(sides: Sequence[Side]) -> Reach:
    """What follows from what the nodes did."""
    taking = {side.node: side for side in sides if side.error is None}
    failed = {
        (side.node, target): failure
        for side in taking.values()
        for target, failure in side.failed.items()
        if target in taking and failure[0]
    }
    # Who accepts nothing from anybody is told first; who reaches nobody, by those that accept something.
    deaf = {
        node: why for node in taking if (why := _why_cut_off(failed, taking, set(taking) - {node}, {node}))
    }
    hearing = set(taking) - set(deaf)
    mute = {node: why for node in taking if (why := _why_cut_off(failed, taking, {node}, hearing - {node}))}
    deaf = {
        node: why
        for node in deaf
        if (why := _why_cut_off(failed, taking, set(taking) - {node, *mute}, {node}))
    }
    left = {pair: failure for pair, failure in failed.items() if pair[0] not in mute and pair[1] not in deaf}
    attempts = sum(len(side.bound) for side in taking.values()) * max(0, len(taking) - 1)
    return Reach(tuple(sides), attempts, deaf, mute, tuple(_fold_pairs(left)))


def _why_cut_off(
    failed: Mapping[tuple[str, str], tuple[Ports, str]],
    taking: Mapping[str, Side],
    sources: Collection[str],
    targets: Collection[str],
) -> Optional[str]:
    """Why none of the sources reaches any of the targets on any port; None where one does, or none tried."""
    reasons = []
    for source in sorted(sources):
        for target in sorted(targets):
            ports, reason = failed.get((source, target), (frozenset(), ""))
            if source != target and not ports >= taking[target].bound:
                return None
            reasons.append(reason)
    return next(iter(reasons), None)


def _fold_pairs(failed: Mapping[tuple[str, str], tuple[Ports, str]]) -> Iterable[Blocked]:
    """Pairs with the same ports and reason, first by source, then sources that have the same targets."""
    by_source: dict[tuple[str, Ports, str], list[str]] = {}
    for (source, target), (ports, reason) in failed.items():
        by_source.setdefault((source, ports, reason), []).append(target)
    alike: dict[tuple[tuple[str, ...], Ports, str], list[str]] = {}
    for (source, ports, reason), targets in by_source.items():
        alike.setdefault((tuple(sorted(targets)), ports, reason), []).append(source)
    for (same, ports, reason), sources in sorted(alike.items(), key=lambda item: -len(item[1])):
        yield Blocked(tuple(sorted(sources)), same, ports, reason)


def port_text(ports: Iterable[int]) -> str:
    """60000-60003,60010."""
    spans: list[list[int]] = []
    for port in sorted(ports):
        if spans and port == spans[-1][1] + 1:
            spans[-1][1] = port
        else:
            spans.append([port, port])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)
