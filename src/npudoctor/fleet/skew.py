"""Finds facts that must be equal on all nodes of a job and are not: the majority, and which nodes deviate."""

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

IN_STEP = 1.5  # seconds; `date +%s` on the node gives whole seconds
LONGEST = 200  # characters of a value
MOST = 400  # facts of one node; a real one has about 40
# As in merge: bounds a hostile report.
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


class NodeFact(NamedTuple):
    """A value of one node. `check`: the check that reports it, "" for the report itself.

    `is_listed`: the check lists everything there is, so that a report without this fact means it does not
    exist. `is_node_named`: the node itself chose the name of the fact, as that of a variable.
    """

    value: str
    check: str = ""
    is_listed: bool = False
    is_node_named: bool = False


class CompletedChecks(NamedTuple):
    """The checks that completed on one node: with an answer, or skipped because they do not apply."""

    answered: frozenset[str]
    skipped: frozenset[str]


NOWHERE = CompletedChecks(frozenset(), frozenset())


@dataclass(frozen=True)
class Deviation:
    """A value and the nodes that have it. None: these nodes were checked and have no such thing."""

    value: Optional[str]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Skew:
    """One fact with at least two values: the most frequent, and the other ones in order of frequency."""

    fact: str
    majority: Deviation
    deviations: tuple[Deviation, ...]


@dataclass(frozen=True)
class UncomparedFacts:
    """Facts that other nodes reported and these did not, so that they could not be compared."""

    facts: tuple[str, ...]
    nodes: tuple[str, ...]


@cache
def compared_by_check() -> Mapping[str, tuple[Compared, ...]]:
    """By id of a built-in check, the facts that it declares to be compared."""
    return {check.id: check.compares for check in load_index().values() if check.compares}


def facts_of(report: Mapping[str, Any]) -> tuple[dict[str, NodeFact], CompletedChecks]:
    """The comparable facts of a report by name, redacted, and which checks completed."""
    results = report.get("results")
    rows = [
        row
        for row in (results[:MOST_ROWS] if isinstance(results, list) else ())
        if isinstance(row, dict)
        and isinstance(row.get("check"), str)
        and (row["check"] in compared_by_check() or row.get("compares"))
    ]
    facts: dict[str, NodeFact] = {}
    for fact, path in _OF_REPORT.items():
        facts.update((fact, NodeFact(value)) for value in _value_texts(fact, _value_at(report, path)))
    tables = {row["check"]: row["facts"] for row in rows if row.get("facts")}
    for check, declared in compared_by_check().items():
        for compared in declared if check in tables else ():
            facts.pop(compared.name, None)  # when two checks report it, the last one counts
            facts.update(_read_facts(check, compared, tables[check]))
    for row in rows:
        for compared in _read_compared(row) if row["check"] not in compared_by_check() else ():
            for fact, entry in _read_facts(row["check"], compared, row.get("facts")):
                facts.setdefault(fact, entry._replace(is_node_named=True))
    if len(facts) > MOST:
        facts = {name: facts[name] for name in list(facts)[:MOST]}
    return facts, _list_answered(report, rows)


def clock_text(ahead: float) -> str:
    """The offset of a node's clock as a value to compare: "in step", or the whole seconds that are
    certain."""
    return "in step" if abs(ahead) <= IN_STEP else f"{ahead:+.0f} s"


def _list_answered(report: Mapping[str, Any], rows: Iterable[dict[str, Any]]) -> CompletedChecks:
    """Which checks completed. A check skipped by the profile or scope has status "skipped", but did not
    look."""
    quick, scope = report.get("profile") == "quick", report.get("scope")
    answered, skipped = [], []
    for row in rows:
        status = row.get("status")
        if status == "skipped":
            if not quick and scope in ("all", row.get("scope")):
                skipped.append(row["check"])
        elif status in ("ok", "problem"):
            answered.append(row["check"])
    return CompletedChecks(frozenset(answered), frozenset(skipped))


def _read_compared(row: Mapping[str, Any]) -> list[Compared]:
    """What the row of a check that is not built in declares to be compared; [] when that is malformed."""
    declared = row["compares"]
    try:
        return [parse_compared(compared) for compared in declared[:MOST_COMPARED]]
    except (TypeError, ValueError, KeyError):
        return []


def _read_facts(check: str, compared: Compared, facts: object) -> Iterator[tuple[str, NodeFact]]:
    """Yield the fact that a check declares; of a table each entry."""
    value = _value_at(facts, compared.path.split(".") if compared.path else ())
    if compared.name:
        for text in _value_texts(compared.name, value):
            yield compared.name, NodeFact(text, check, compared.complete)
    elif isinstance(value, dict):
        for key, entry in list(value.items())[:MOST]:
            name = key[:LONGEST]
            for text in _value_texts(name, entry) if key not in compared.own else ():
                yield name, NodeFact(text, check, is_listed=True, is_node_named=True)


def _value_at(value: Any, path: Sequence[str]) -> Any:
    """The value at a path of keys, None when absent; at "*" all distinct values, sorted, as one text."""
    for index, key in enumerate(path):
        if key == "*":
            parts = list(value.values())[:MOST] if isinstance(value, dict) else []
            below = [_value_at(part, path[index + 1 :]) for part in parts]
            plain = {str(part)[:LONGEST] for part in below if type(part) in (int, str)}
            return " ".join(sorted(plain)) or None
        if isinstance(value, list):
            value = value[int(key)] if key.isdecimal() and len(key) < 6 and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _value_texts(fact: str, value: object) -> Iterator[str]:
    """Yield the value as text; nothing when it has no short text."""
    if isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, (int, float)):
        yield str(value)[:LONGEST]
    elif isinstance(value, list) and all(isinstance(part, str) for part in value[:MOST]):
        yield from _value_texts(fact, " ".join(value[:MOST]))
    elif isinstance(value, str) and value:
        # With its name: whether a value is a secret often depends on the name of its variable.
        shown = redact_value({fact: value[:LONGEST]})
        yield str(shown[fact]) if isinstance(shown, dict) else ""


class FleetComparison:
    """Collects facts node by node; each distinct value is held once."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, list[str]]] = {}
        self._tellers: dict[str, dict[str, bool]] = {}  # by fact, by check that reports it: whether listed
        self._looked: dict[CompletedChecks, list[str]] = {}
        self._count = self._names = 0
        self._left_out: dict[str, None] = {}

    def add(self, node: str, facts: Mapping[str, NodeFact], completed: CompletedChecks) -> None:
        """Add the facts of one node, and which checks completed there."""
        self._count += 1
        for fact, (value, check, is_listed, is_node_named) in facts.items():
            if fact not in self._nodes and is_node_named:
                self._names += 1
                if self._names > MOST_NAMES:
                    self._left_out[node] = None
                    continue
            self._nodes.setdefault(fact, {}).setdefault(value, []).append(node)
            self._tellers.setdefault(fact, {})[check] = is_listed
        self._looked.setdefault(completed, []).append(node)

    def skews(self) -> tuple[tuple[Skew, ...], tuple[UncomparedFacts, ...]]:
        """The facts that differ, and those that could not be compared.

        The fact with the fewest deviating nodes comes first: a single deviating node is the likely cause.
        """
        skews: list[Skew] = []
        uncompared_facts: dict[str, list[str]] = {}
        for fact in self._nodes:
            nodes_without, unknown_nodes = self._without(fact)
            skews += self._skew(fact, nodes_without)
            for node in unknown_nodes:
                uncompared_facts.setdefault(node, []).append(fact)
        for node in self._left_out:
            uncompared_facts.setdefault(node, []).append(
                _("all variable and package names after the first {n}", n=MOST_NAMES)
            )
        skews.sort(key=lambda skew: (sum(len(deviation.nodes) for deviation in skew.deviations), skew.fact))
        alike: dict[tuple[str, ...], list[str]] = {}
        for node, facts in uncompared_facts.items():
            alike.setdefault(tuple(facts), []).append(node)
        ranked = sorted(alike.items(), key=lambda item: (-len(item[1]), item[1]))
        return tuple(skews), tuple(UncomparedFacts(facts, tuple(nodes)) for facts, nodes in ranked)

    def _skew(self, fact: str, nodes_without: list[str]) -> Iterator[Skew]:
        values: dict[Optional[str], list[str]] = dict(self._nodes[fact].items())
        if nodes_without:
            values[None] = nodes_without
        if len(values) < 2:
            return
        ranked = sorted(values.items(), key=lambda item: (-len(item[1]), item[0] is None, item[0] or ""))
        majority, *deviations = (Deviation(value, tuple(nodes)) for value, nodes in ranked)
        yield Skew(fact, majority, tuple(deviations))

    def _without(self, fact: str) -> tuple[list[str], list[str]]:
        """The nodes that certainly do not have the fact, and those for which it is unknown."""
        nodes_with_fact = {node for nodes in self._nodes[fact].values() for node in nodes}
        answers: tuple[list[str], list[str]] = [], []
        if len(nodes_with_fact) < self._count:
            for completed, nodes in self._looked.items():
                # Absent only when every check that could report it completed there and lists everything.
                tellers = self._tellers[fact]
                is_absent = all(
                    check in completed.skipped or (listed and check in completed.answered)
                    for check, listed in tellers.items()
                )
                answers[0 if is_absent else 1].extend(node for node in nodes if node not in nodes_with_fact)
        return answers
