"""Rule sets in one form, whichever tool they were read from: tables, chains, rules, and what a rule does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable, Optional, Union

from npudoctor.core.frozen import dataclass
from npudoctor.firewall.packet import Packet, Truth

# What a rule decides: accept, drop, return, continue, jump and goto with a chain; "unknown" is anything.
Verdict = tuple[str, str]
ACCEPT, DROP, RETURN, CONTINUE = ("accept", ""), ("drop", ""), ("return", ""), ("continue", "")
UNKNOWN = ("unknown", "")


@dataclass(frozen=True)
class Match:
    """The rule goes on only for packets of which this is true. `ports` are those that it asks for: "d" for
    the destination's, "s" for the source's."""

    test: Callable[[Packet], Truth]
    ports: str = ""


@dataclass(frozen=True)
class Change:
    """The packet is another one from here on."""

    apply: Callable[[Packet], Packet]


@dataclass(frozen=True)
class Choose:
    """What is decided: one of these, None for "the rule ends here". `ports` as in Match."""

    pick: Callable[[Packet], Sequence[Optional[Verdict]]]
    ports: str = ""


Step = Union[Match, Change, Choose]


@dataclass(frozen=True)
class Rule:
    """`text` is how a person finds it."""

    steps: tuple[Step, ...]
    text: str = ""


@dataclass(frozen=True)
class Base:
    """Where a chain hangs. `device`: None where a chain of ingress or egress does not say."""

    kind: str
    hook: str
    priority: int
    drops: bool = False
    device: Optional[str] = None


@dataclass(frozen=True)
class Chain:
    """Rules in their order; `base` is None for one that is only jumped to."""

    name: str
    rules: tuple[Rule, ...]
    base: Optional[Base] = None


@dataclass(frozen=True)
class Table:
    """`family`: ip, ip6, inet, netdev, bridge, arp. `tool`: the program that changes it. `sure`: not when
    it may be asleep (dormant)."""

    family: str
    name: str
    chains: Mapping[str, Chain]
    tool: str = "nft"
    sure: bool = True

    def place(self, chain: str) -> str:
        """How a person finds a chain of it."""
        if self.tool == "nft":
            return f"nft {self.family} {self.name} {chain}"
        return f"{self.tool} -t {self.name} {chain}"


# What odd output of a tool makes a question or its reading raise: it cannot be said then.
ODD = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


def decide(verdict: Verdict) -> Choose:
    """A step that decides the same for every packet."""
    return Choose(lambda packet: (verdict,))


def unclear() -> Match:
    """A step of which nobody can say whether it lets the packet on."""
    return Match(lambda packet: None)
