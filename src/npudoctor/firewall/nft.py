"""Parses what `nft -j list ruleset` prints into tables.

nft prints rules of iptables-nft with matches that it cannot express as `xt`, without their options. These
rules are read from iptables-save, which RuleLender stands for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from npudoctor.core.frozen import replace
from npudoctor.core.parsing import json_of
from npudoctor.firewall.fields import marks_of
from npudoctor.firewall.match import comparison_test, map_choices
from npudoctor.firewall.packet import Packet, spoil
from npudoctor.firewall.rules import (
    ODD_OUTPUT_ERRORS,
    UNKNOWN,
    BaseHook,
    Chain,
    Condition,
    Decision,
    PacketChange,
    Rule,
    RuleTable,
    Step,
    decide,
    undecidable_condition,
)
from npudoctor.firewall.sets import Elements, Sets, parse_elements, parse_verdict

# Returns the rules of a chain (family, table, chain) as iptables-save prints them; None if it does not.
RuleLender = Callable[[str, str, str], Optional[Sequence[Rule]]]

# Statements without effect on the verdict, addresses, ports and marks.
_HARMLESS = {
    "counter", "log", "comment", "last", "dup", "flow", "ct helper", "ct timeout", "ct expectation",
    "secmark",
}  # fmt: skip
# Whether these let a packet on depends on earlier packets.
_DOUBTFUL = {"limit", "ct count", "quota", "set", "map", "meter"}
_VERDICTS = {"accept", "drop", "return", "continue", "jump", "goto", "reject"}
# Flags of a table that is at work. nft 1.0.6 prints rubbish for any flag: then it may be dormant.
_FLAGS_OF_ACTIVE_TABLE = {"owner", "persist"}


def parse_nft(text: str, borrowed: RuleLender = lambda *place: None) -> list[RuleTable]:
    """The tables of a rule set; ValueError if the text is not a rule set in JSON."""
    try:
        items = json_of(text)["nftables"]
        objects = _RulesetIndex([item for item in items if isinstance(item, dict)])
        return [_parse_table(table, objects, borrowed) for table in objects.objects_of_kinds("table")]
    except ODD_OUTPUT_ERRORS as error:
        raise ValueError(str(error)) from error


class _RulesetIndex:
    """Finds the objects of a rule set by their kind, table and chain."""

    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self._objects_by_kind: dict[str, list[Mapping[str, Any]]] = {}
        self._rules_by_chain: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for item in items:
            for kind, body in item.items():
                self._objects_by_kind.setdefault(kind, []).append(body)
                if kind == "rule":
                    place = (body["family"], body["table"], body["chain"])
                    self._rules_by_chain.setdefault(place, []).append(body)

    def objects_of_kinds(self, *kinds: str) -> list[Mapping[str, Any]]:
        """All objects of these kinds."""
        return [body for kind in kinds for body in self._objects_by_kind.get(kind, ())]

    def objects_in_table(self, table: Mapping[str, Any], *kinds: str) -> list[Mapping[str, Any]]:
        """The objects of these kinds in a table."""
        place = (table["family"], table["name"])
        return [body for body in self.objects_of_kinds(*kinds) if (body["family"], body["table"]) == place]

    def rules_of_chain(self, table: Mapping[str, Any], chain: str) -> list[Mapping[str, Any]]:
        """The rules of a chain, in order."""
        return self._rules_by_chain.get((table["family"], table["name"], chain), [])


def _parse_table(table: Mapping[str, Any], objects: _RulesetIndex, borrowed: RuleLender) -> RuleTable:
    family, name = table["family"], table["name"]
    flags = table.get("flags", ())
    flag_names = {flags} if isinstance(flags, str) else set(flags)
    updated_sets = _find_updated(objects.objects_in_table(table, "rule"))
    sets: dict[str, Elements] = {}
    for listing in objects.objects_in_table(table, "set", "map"):
        listed_elements = parse_elements(listing.get("elem", []))
        sets[listing["name"]] = replace(
            listed_elements, sure=listed_elements.sure and listing["name"] not in updated_sets
        )
    chains = {}
    for chain in objects.objects_in_table(table, "chain"):
        rules = objects.rules_of_chain(table, chain["name"])
        iptables_rules = borrowed(family, name, chain["name"]) if any(map(_has_xt_statement, rules)) else None
        # The two listings are taken one after the other: a rule may have been added between them.
        if iptables_rules is not None and len(iptables_rules) != len(rules):
            iptables_rules = None
        parsed_rules = tuple(
            iptables_rules[position]
            if iptables_rules is not None and _has_xt_statement(rule)
            else _parse_rule(rule, sets)
            for position, rule in enumerate(rules)
        )
        chains[chain["name"]] = Chain(chain["name"], parsed_rules, _parse_base(chain))
    is_dormant = "dormant" in flag_names
    return RuleTable(
        family, name, {} if is_dormant else chains, sure=is_dormant or flag_names <= _FLAGS_OF_ACTIVE_TABLE
    )


def _find_updated(rules: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names of the sets that packets change, by `add @set { ... }` in a rule."""
    names = set()
    for rule in rules:
        for statement in rule.get("expr", ()):
            for kind in ("set", "map", "meter"):
                if isinstance(statement, dict) and isinstance(statement.get(kind), dict):
                    body = statement[kind]
                    names.add(str(body.get(kind, body.get("name"))).lstrip("@"))
    return names


def _parse_base(chain: Mapping[str, Any]) -> Optional[BaseHook]:
    if "hook" not in chain:
        return None
    device = chain.get("dev")
    return BaseHook(
        str(chain.get("type")),
        str(chain["hook"]),
        int(chain.get("prio", 0)),
        chain.get("policy") == "drop",
        device if isinstance(device, str) else None,
    )


def _has_xt_statement(rule: Mapping[str, Any]) -> bool:
    return any(
        statement is None or (isinstance(statement, dict) and "xt" in statement)
        for statement in rule.get("expr", ())
    )


def _parse_rule(rule: Mapping[str, Any], sets: Sets) -> Rule:
    steps: list[Step] = []
    for statement in rule.get("expr", ()):
        try:
            steps.extend(_parse_statement(statement, sets))
        except ODD_OUTPUT_ERRORS:  # one odd statement does not take the other rules with it
            steps += [PacketChange(spoil), decide(UNKNOWN)]
    return Rule(tuple(steps), f"handle {rule.get('handle')}")


def _parse_statement(statement: Any, sets: Sets) -> tuple[Step, ...]:
    """The steps of one statement; one that is not known may change and decide anything."""
    if isinstance(statement, str) and statement.startswith("last"):
        return ()
    if not isinstance(statement, dict) or len(statement) != 1:
        return (PacketChange(spoil), decide(UNKNOWN))
    ((kind, body),) = statement.items()
    if kind == "match":
        return (Condition(comparison_test(body, sets), _ports_in_key(body.get("left"))),)
    if kind in _VERDICTS:
        return (decide(parse_verdict(statement)),)
    if kind == "vmap":
        return (Decision(map_choices(body, sets), _ports_in_key(body.get("key"))),)
    if kind == "mangle":
        # A statement that sets something of the packet.
        key, value = body.get("key", {}), body.get("value")
        if "meta" in key and key["meta"].get("key") == "mark":
            return (PacketChange(lambda packet: replace(packet, mark=marks_of(value, packet))),)
        if "ct" in key and key["ct"].get("key") == "mark":
            return (PacketChange(lambda packet: replace(packet, connection_mark=marks_of(value, packet))),)
        if "meta" in key and key["meta"].get("key") in ("priority", "nftrace"):
            return ()
        # Writing an address or a port is NAT without conntrack.
        if "payload" in key and key["payload"].get("field") in ("saddr", "daddr", "sport", "dport"):
            return (PacketChange(spoil),)
        return () if {"payload", "tcp option", "ct"} & set(key) else (PacketChange(spoil),)
    if kind == "notrack":
        return (PacketChange(untrack),)
    if kind == "xt" and isinstance(body, dict) and body.get("type") == "match":
        return (undecidable_condition(),)
    if kind in _DOUBTFUL:
        return (undecidable_condition(),)
    return () if kind in _HARMLESS else (PacketChange(spoil), decide(UNKNOWN))


def _ports_in_key(key: Any) -> str:
    """Which ports an expression reads: "d", "s", both or none."""
    text = json.dumps(key)
    return "".join(end for end in "ds" if f'"{end}port"' in text)


def untrack(packet: Packet) -> Packet:
    """The packet after `notrack`, which has no effect once conntrack has given the packet a state."""
    return replace(packet, untracked=True) if packet.states == {"invalid"} else packet
