"""What must be alike on all nodes of a job and is not: the majority, and who deviates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Optional

from npudoctor.checking.check import MOST_COMPARED, parse_compared
from npudoctor.checking.index import load_index
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import Compared
from npudoctor.core.redact.redact import redact_value

IN_STEP = 1.5  # seconds: a node tells whole ones
LONGEST = 200  # characters of a value
MOST = 400  # facts of one node; a real one has about 40
MOST_ROWS = 1000
MOST_NAMES = 500  # variables, packages and the like of all nodes together; a real fleet has about 100

# Facts of the report itself, by where they stand.
_OF_REPORT = {
    "kernel": ("host", "release"),
    "architecture": ("host", "machine"),
    "distribution": ("host", "distribution"),
    "accelerator": ("target", "model"),
    "devices": ("target", "devices"),
    "python": ("target", "python", "version"),
    "python path": ("target", "python", "path"),
    "npudoctor": ("version",),
}


class Told(NamedTuple):
    """A value of one node. `check`: which tells it, "" for the report itself.

    `listed`: the check lists all that there is, so that an answer without it means that there is none.
    `named`: the node itself chose the name of the fact.
    """

    value: str
    check: str = ""
    listed: bool = False
    named: bool = False


class Looked(NamedTuple):
    """The checks that came to an end at one node: with an answer, or because they do not apply there."""

    answered: frozenset[str]
    skipped: frozenset[str]


NOWHERE = Looked(frozenset(), frozenset())


@dataclass(frozen=True)
class Deviation:
    """A value that some nodes have. None: the node was looked at and has none."""

    value: Optional[str]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Skew:
    """One fact with at least two values, the most frequent first."""

    fact: str
    majority: Deviation
    others: tuple[Deviation, ...]


@dataclass(frozen=True)
class Gap:
    """Facts that other nodes told and these did not: they could not be compared."""

    facts: tuple[str, ...]
    nodes: tuple[str, ...]


@cache
def built_in() -> Mapping[str, tuple[Compared, ...]]:
    """What the built-in checks declare to be compared, by their ids."""
    return {check.id: check.compares for check in load_index().values() if check.compares}


def facts_of(report: Mapping[str, Any]) -> tuple[dict[str, Told], Looked]:
    """The comparable facts of a report as short texts without secrets, and which checks looked."""
    results = report.get("results")
    rows = [
        row
        for row in (results[:MOST_ROWS] if isinstance(results, list) else ())
        if isinstance(row, dict)
        and isinstance(row.get("check"), str)
        and (row["check"] in built_in() or row.get("compares"))
    ]
    facts: dict[str, Told] = {}
    for fact, path in _OF_REPORT.items():
        facts.update((fact, Told(value)) for value in _texts(fact, _at(report, path)))
    tables = {row["check"]: row["facts"] for row in rows if row.get("facts")}
    for check, declared in built_in().items():
        for compared in declared if check in tables else ():
            facts.pop(compared.name, None)  # of two checks that tell it the last decides
            facts.update(_read_facts(check, compared, tables[check]))
    for row in rows:
        for compared in _read_compared(row) if row["check"] not in built_in() else ():
            for fact, entry in _read_facts(row["check"], compared, row.get("facts")):
                facts.setdefault(fact, entry._replace(named=True))
    if len(facts) > MOST:
        facts = {name: facts[name] for name in list(facts)[:MOST]}
    return facts, _list_answered(report, rows)


def clock_text(ahead: float) -> str:
    """How a node's clock stands to ours, as a value to compare: seconds that are certain."""
    return "in step" if abs(ahead) <= IN_STEP else f"{ahead:+.0f} s"


def _list_answered(report: Mapping[str, Any], rows: Iterable[dict[str, Any]]) -> Looked:
    """Which checks came to an end. One that profile or scope left out was skipped too, and did not look."""
    quick, scope = report.get("profile") == "quick", report.get("scope")
    answered, skipped = [], []
    for row in rows:
        status = row.get("status")
        if status == "skipped":
            if not quick and scope in ("all", row.get("scope")):
                skipped.append(row["check"])
        elif status in ("ok", "problem"):
            answered.append(row["check"])
    return Looked(frozenset(answered), frozenset(skipped))


def _read_compared(row: Mapping[str, Any]) -> list[Compared]:
    """What a check that is not built in declares in its row; nothing where that is not well formed."""
    declared = row["compares"]
    try:
        return [parse_compared(compared) for compared in declared[:MOST_COMPARED]]
    except (TypeError, ValueError, KeyError):
        return []


def _read_facts(check: str, compared: Compared, facts: object) -> Iterator[tuple[str, Told]]:
    """The fact that a check declares; of a table each entry."""
    value = _at(facts, compared.path.split(".") if compared.path else ())
    if compared.name:
        for text in _texts(compared.name, value):
            yield compared.name, Told(text, check, compared.complete)
    elif isinstance(value, dict):
        for key, entry in list(value.items())[:MOST]:
            name = key[:LONGEST]
            for text in _texts(name, entry) if key not in compared.own else ():
                yield name, Told(text, check, listed=True, named=True)


def _at(value: Any, path: Sequence[str]) -> Any:
    """What stands at a path; at "*" all values that occur, as one text."""
    for index, key in enumerate(path):
        if key == "*":
            parts = list(value.values())[:MOST] if isinstance(value, dict) else []
            below = [_at(part, path[index + 1 :]) for part in parts]
            plain = {str(part)[:LONGEST] for part in below if type(part) in (int, str)}
            return " ".join(sorted(plain)) or None
        if isinstance(value, list):
            value = value[int(key)] if key.isdecimal() and len(key) < 6 and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _texts(fact: str, value: object) -> Iterator[str]:
    """The value as a text, or nothing."""
    if isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, (int, float)):
        yield str(value)[:LONGEST]
    elif isinstance(value, list) and all(isinstance(part, str) for part in value[:MOST]):
        yield from _texts(fact, " ".join(value[:MOST]))
    elif isinstance(value, str) and value:
        shown = redact_value({fact: value[:LONGEST]})
        yield str(shown[fact]) if isinstance(shown, dict) else ""


class Comparison:
    """Gathers facts node by node; a value is held once however many nodes have it."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, list[str]]] = {}
        self._tellers: dict[str, dict[str, bool]] = {}  # by fact: the checks that tell it, and whether listed
        self._looked: dict[Looked, list[str]] = {}
        self._count = self._names = 0
        self._left_out: dict[str, None] = {}

    def add(self, node: str, facts: Mapping[str, Told], looked: Looked) -> None:
        """The facts of one node, and which checks looked there."""
        self._count += 1
        for fact, (value, check, listed, named) in facts.items():
            if fact not in self._nodes and named:
                self._names += 1
                if self._names > MOST_NAMES:
                    self._left_out[node] = None
                    continue
            self._nodes.setdefault(fact, {}).setdefault(value, []).append(node)
            self._tellers.setdefault(fact, {})[check] = listed
        self._looked.setdefault(looked, []).append(node)

    def skews(self) -> tuple[tuple[Skew, ...], tuple[Gap, ...]]:
        """What differs, fewest deviating nodes first, as one node unlike all others is the likely cause.

        And what could not be compared, by the nodes that do not tell it.
        """
        skews: list[Skew] = []
        open_facts: dict[str, list[str]] = {}
        for fact in self._nodes:
            none, unknown = self._without(fact)
            skews += self._skew(fact, none)
            for node in unknown:
                open_facts.setdefault(node, []).append(fact)
        for node in self._left_out:
            open_facts.setdefault(node, []).append(
                _("all variable and package names after the first {n}", n=MOST_NAMES)
            )
        skews.sort(key=lambda skew: (sum(len(other.nodes) for other in skew.others), skew.fact))
        alike: dict[tuple[str, ...], list[str]] = {}
        for node, facts in open_facts.items():
            alike.setdefault(tuple(facts), []).append(node)
        ranked = sorted(alike.items(), key=lambda item: (-len(item[1]), item[1]))
        return tuple(skews), tuple(Gap(facts, tuple(nodes)) for facts, nodes in ranked)

    def _skew(self, fact: str, none: list[str]) -> Iterator[Skew]:
        values: dict[Optional[str], list[str]] = dict(self._nodes[fact].items())
        if none:
            values[None] = none
        if len(values) < 2:
            return
        ranked = sorted(values.items(), key=lambda item: (-len(item[1]), item[0] is None, item[0] or ""))
        first, *others = (Deviation(value, tuple(nodes)) for value, nodes in ranked)
        yield Skew(fact, first, tuple(others))

    def _without(self, fact: str) -> tuple[list[str], list[str]]:
        """The nodes that have no such thing, and those of which nobody knows."""
        known = {node for nodes in self._nodes[fact].values() for node in nodes}
        answers: tuple[list[str], list[str]] = [], []
        if len(known) < self._count:
            for looked, nodes in self._looked.items():
                # Whether a node without a value has none: all that could tell one looked, and know of none.
                tellers = self._tellers[fact]
                exists_not = all(
                    check in looked.skipped or (listed and check in looked.answered)
                    for check, listed in tellers.items()
                )
                answers[0 if exists_not else 1].extend(node for node in nodes if node not in known)
        return answers
