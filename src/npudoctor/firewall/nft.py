"""Reads what `nft -j list ruleset` prints into tables; rules of iptables in it are taken from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from npudoctor.core.frozen import replace
from npudoctor.core.parsing import json_of
from npudoctor.firewall.fields import marks_of
from npudoctor.firewall.match import choices, comparison
from npudoctor.firewall.packet import Packet, spoil
from npudoctor.firewall.rules import (
    ODD,
    UNKNOWN,
    Base,
    Chain,
    Change,
    Choose,
    Match,
    Rule,
    Step,
    Table,
    decide,
    unclear,
)
from npudoctor.firewall.sets import Elements, Sets, elements, verdict_of

# The rules of one chain of iptables, as iptables-save prints them: by family, table and chain.
Borrowed = Callable[[str, str, str], Optional[Sequence[Rule]]]

_HARMLESS = {
    "counter", "log", "comment", "last", "dup", "flow", "ct helper", "ct timeout", "ct expectation",
    "secmark",
}  # fmt: skip
_DOUBTFUL = {"limit", "ct count", "quota", "set", "map", "meter"}
_VERDICTS = {"accept", "drop", "return", "continue", "jump", "goto", "reject"}
# Flags of a table that is at work. nft 1.0.6 prints rubbish for any flag: then nobody knows.
_AWAKE = {"owner", "persist"}


def parse_nft(text: str, borrowed: Borrowed = lambda *place: None) -> list[Table]:
    """The tables; ValueError for what is no rule set in JSON."""
    try:
        items = json_of(text)["nftables"]
        objects = _Found([item for item in items if isinstance(item, dict)])
        return [_table(table, objects, borrowed) for table in objects.of("table")]
    except ODD as error:
        raise ValueError(str(error)) from error


class _Found:
    """The objects of a rule set by their kind and place."""

    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self._kinds: dict[str, list[Mapping[str, Any]]] = {}
        self._rules: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for item in items:
            for kind, body in item.items():
                self._kinds.setdefault(kind, []).append(body)
                if kind == "rule":
                    place = (body["family"], body["table"], body["chain"])
                    self._rules.setdefault(place, []).append(body)

    def of(self, *kinds: str) -> list[Mapping[str, Any]]:
        """All objects of these kinds."""
        return [body for kind in kinds for body in self._kinds.get(kind, ())]

    def within(self, table: Mapping[str, Any], *kinds: str) -> list[Mapping[str, Any]]:
        """Those of a table."""
        place = (table["family"], table["name"])
        return [body for body in self.of(*kinds) if (body["family"], body["table"]) == place]

    def rules(self, table: Mapping[str, Any], chain: str) -> list[Mapping[str, Any]]:
        """The rules of a chain, in order."""
        return self._rules.get((table["family"], table["name"], chain), [])


def _table(table: Mapping[str, Any], objects: _Found, borrowed: Borrowed) -> Table:
    family, name = table["family"], table["name"]
    flags = table.get("flags", ())
    marks = {flags} if isinstance(flags, str) else set(flags)
    moving = _find_updated(objects.within(table, "rule"))
    sets: dict[str, Elements] = {}
    for listing in objects.within(table, "set", "map"):
        listed = elements(listing.get("elem", []))
        sets[listing["name"]] = replace(listed, sure=listed.sure and listing["name"] not in moving)
    chains = {}
    for chain in objects.within(table, "chain"):
        rules = objects.rules(table, chain["name"])
        lent = borrowed(family, name, chain["name"]) if any(map(_is_xt, rules)) else None
        if lent is not None and len(lent) != len(rules):
            lent = None
        made = tuple(
            lent[at] if lent is not None and _is_xt(rule) else _rule(rule, sets)
            for at, rule in enumerate(rules)
        )
        chains[chain["name"]] = Chain(chain["name"], made, _base(chain))
    asleep = "dormant" in marks
    return Table(family, name, {} if asleep else chains, sure=asleep or marks <= _AWAKE)


def _find_updated(rules: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names of the sets that packets themselves change."""
    names = set()
    for rule in rules:
        for statement in rule.get("expr", ()):
            for kind in ("set", "map", "meter"):
                if isinstance(statement, dict) and isinstance(statement.get(kind), dict):
                    body = statement[kind]
                    names.add(str(body.get(kind, body.get("name"))).lstrip("@"))
    return names


def _base(chain: Mapping[str, Any]) -> Optional[Base]:
    if "hook" not in chain:
        return None
    device = chain.get("dev")
    return Base(
        str(chain.get("type")),
        str(chain["hook"]),
        int(chain.get("prio", 0)),
        chain.get("policy") == "drop",
        device if isinstance(device, str) else None,
    )


def _is_xt(rule: Mapping[str, Any]) -> bool:
    return any(
        statement is None or (isinstance(statement, dict) and "xt" in statement)
        for statement in rule.get("expr", ())
    )


def _rule(rule: Mapping[str, Any], sets: Sets) -> Rule:
    steps: list[Step] = []
    for statement in rule.get("expr", ()):
        try:
            steps.extend(_steps(statement, sets))
        except ODD:  # one odd statement does not take the other rules with it
            steps += [Change(spoil), decide(UNKNOWN)]
    return Rule(tuple(steps), f"handle {rule.get('handle')}")


def _steps(statement: Any, sets: Sets) -> tuple[Step, ...]:
    """What one statement does."""
    if isinstance(statement, str) and statement.startswith("last"):
        return ()
    if not isinstance(statement, dict) or len(statement) != 1:
        return (Change(spoil), decide(UNKNOWN))
    ((kind, body),) = statement.items()
    if kind == "match":
        return (Match(comparison(body, sets), _ports(body.get("left"))),)
    if kind in _VERDICTS:
        return (decide(verdict_of(statement)),)
    if kind == "vmap":
        return (Choose(choices(body, sets), _ports(body.get("key"))),)
    if kind == "mangle":
        # A statement that sets something of the packet.
        key, value = body.get("key", {}), body.get("value")
        if "meta" in key and key["meta"].get("key") == "mark":
            return (Change(lambda packet: replace(packet, mark=marks_of(value, packet))),)
        if "ct" in key and key["ct"].get("key") == "mark":
            return (Change(lambda packet: replace(packet, connection_mark=marks_of(value, packet))),)
        if "meta" in key and key["meta"].get("key") in ("priority", "nftrace"):
            return ()
        if "payload" in key and key["payload"].get("field") in ("saddr", "daddr", "sport", "dport"):
            return (Change(spoil),)
        return () if {"payload", "tcp option", "ct"} & set(key) else (Change(spoil),)
    if kind == "notrack":
        return (Change(untrack),)
    if kind == "xt" and isinstance(body, dict) and body.get("type") == "match":
        return (unclear(),)
    if kind in _DOUBTFUL:
        return (unclear(),)
    return () if kind in _HARMLESS else (Change(spoil), decide(UNKNOWN))


def _ports(key: Any) -> str:
    """Which ports are looked at."""
    text = json.dumps(key)
    return "".join(end for end in "ds" if f'"{end}port"' in text)


def untrack(packet: Packet) -> Packet:
    """A packet that conntrack is kept from, where it has not seen it yet."""
    return replace(packet, untracked=True) if packet.states == {"invalid"} else packet
