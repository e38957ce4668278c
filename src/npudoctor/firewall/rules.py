"""Rule sets in one form, whichever tool they were read from: tables, chains, rules, and what a rule does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable, Optional, Union

from npudoctor.core.frozen import dataclass
from npudoctor.firewall.packet import Packet, Truth

# What a rule decides, and the chain of a jump or goto ("" for others); "unknown" may be any of them.
Verdict = tuple[str, str]
ACCEPT, DROP, RETURN, CONTINUE = ("accept", ""), ("drop", ""), ("return", ""), ("continue", "")
UNKNOWN = ("unknown", "")


@dataclass(frozen=True)
class Condition:
    """A step after which the rule goes on only for packets that pass `test`.

    `ports`: which ports the test reads, "d" for the destination's, "s" for the source's, or both.
    """

    test: Callable[[Packet], Truth]
    ports: str = ""


@dataclass(frozen=True)
class PacketChange:
    """A step that changes the packet."""

    apply: Callable[[Packet], Packet]


@dataclass(frozen=True)
class Decision:
    """A step that ends in one of the verdicts that `pick` returns; None in them: the rule ends undecided.

    `ports` as in Condition.
    """

    pick: Callable[[Packet], Sequence[Optional[Verdict]]]
    ports: str = ""


Step = Union[Condition, PacketChange, Decision]


@dataclass(frozen=True)
class Rule:
    """The steps of a rule in their order; `text` is how a person finds it in a listing."""

    steps: tuple[Step, ...]
    text: str = ""


@dataclass(frozen=True)
class BaseHook:
    """Where a base chain is attached. `drops`: its policy is drop. `device`: the interface of a chain at
    ingress or egress, None if the listing does not name one."""

    kind: str
    hook: str
    priority: int
    drops: bool = False
    device: Optional[str] = None


@dataclass(frozen=True)
class Chain:
    """Rules in their order; `base` is None for a chain that is only reached by jumps."""

    name: str
    rules: tuple[Rule, ...]
    base: Optional[BaseHook] = None


@dataclass(frozen=True)
class RuleTable:
    """A table of chains. `family`: ip, ip6, inet, netdev, bridge or arp. `tool`: the program that changes
    it. `sure`: False if it may be dormant, that is, switched off as a whole."""

    family: str
    name: str
    chains: Mapping[str, Chain]
    tool: str = "nft"
    sure: bool = True

    def describe_chain(self, chain: str) -> str:
        """The chain as a person finds it: arguments of nft, or a command of iptables."""
        if self.tool == "nft":
            return f"nft {self.family} {self.name} {chain}"
        return f"{self.tool} -t {self.name} {chain}"


# What odd output of a tool makes a test or its parser raise: the answer is unknown then.
ODD_OUTPUT_ERRORS = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def decide(verdict: Verdict) -> Decision:
    """A step that decides the same for every packet."""
    return Decision(lambda packet: (verdict,))


def undecidable_condition() -> Condition:
    """A condition that is unknown for every packet."""
    return Condition(lambda packet: None)
