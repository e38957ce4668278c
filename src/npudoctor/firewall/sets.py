"""Sets and maps of nftables' JSON, and the verdicts in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.core.frozen import dataclass
from npudoctor.firewall.rules import Verdict

# What nft prints beside an element without its depending on the packet; "limit" and others do depend on it.
_PLAIN = {"val", "timeout", "expires", "comment", "counter"}


@dataclass(frozen=True)
class Elements:
    """What a set lists. `sure`: False if packets change the set, or if what it matches is not in the list."""

    values: tuple[Any, ...]
    sure: bool = True


Sets = Mapping[str, Elements]


def resolve_elements(right: Any, sets: Sets) -> Elements:
    """The values on the right side of a comparison: of a named set (`@name`), of a literal set, or one."""
    if isinstance(right, str) and right.startswith("@"):
        return sets.get(right[1:], Elements((), sure=False))
    if isinstance(right, dict) and "set" in right:
        return parse_elements(right["set"])
    return Elements((right,))


def parse_elements(listed: Any) -> Elements:
    """The elements of a set or map as nft prints them."""
    values, sure = [], True
    for element in listed if isinstance(listed, list) else [listed]:
        pair = isinstance(element, list) and len(element) == 2 and isinstance(element[1], dict)
        key = element[0] if pair else element
        if isinstance(key, dict) and "elem" in key:
            sure = sure and set(key["elem"]) <= _PLAIN
            key = key["elem"].get("val")
        # "*" is the catch-all element (nft 0.9.9, Linux 5.13): it matches what the others do not.
        sure = sure and key != "*"
        values.append([key, element[1]] if pair else key)
    return Elements(tuple(values), sure)


def parse_verdict(statement: Any) -> Verdict:
    """A verdict as nft prints it."""
    if isinstance(statement, dict) and len(statement) == 1:
        ((kind, body),) = statement.items()
        if kind in ("accept", "drop", "return", "continue"):
            return kind, ""
        if kind in ("jump", "goto") and isinstance(body, dict):
            return kind, str(body.get("target"))
        if kind == "reject":
            return "drop", ""
    return "unknown", ""
