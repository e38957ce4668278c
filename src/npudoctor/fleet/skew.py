"""What must be alike on all nodes of a job and is not: the majority, and who deviates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
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
# Facts of a check, by its id and where they stand.
_OF_CHECK = {
    "driver (NPU)": ("accelerator", "npu", "driver"),
    "driver (GPU)": ("accelerator", "gpu", "driver"),
    "firmware": ("driver-firmware", "firmware"),
    "HCCL interface": ("hccl-interface", "interface"),
    "HCCL default interface": ("socket-interfaces", "hccl_default"),
    "rank table digest": ("rank-table", "digest"),
    "rank table template": ("rank-table", "template"),
    "rank table servers": ("rank-table", "servers"),
    "rank table ranks": ("rank-table", "ranks"),
    "clock synchronised": ("clock", "synchronised"),
    "open files, soft limit": ("file-limits", "soft"),
}
_LISTED = frozenset(("HCCL interface", "HCCL default interface"))
# Checks whose facts hold a table by name: each entry is a fact.
_TABLES = {
    "hccl-env": ("variables",),
    "nccl-env": ("variables",),
    "training-env": ("variables",),
    "log-settings": ("variables",),
    "paddle-flags": ("variables",),
    "package-requirements": ("frameworks",),
    "torch-family": (),
    "socket-interfaces": ("interfaces",),
}
_TELLING = frozenset(("cann-install", "cann-driver", "hccn-config", *_TABLES)).union(
    check for check, *_keys in _OF_CHECK.values()
)
# Each node has its own.
_OWN = frozenset(
    "HCCL_IF_IP RANK RANK_ID LOCAL_RANK NODE_RANK GROUP_RANK DEVICE_ID ASCEND_DEVICE_ID POD_IP".split()
)


class Told(NamedTuple):
    """A value of one node. `check`: which tells it, "" for the report itself.

    `listed`: the check lists all that there is, so that an answer without it means that there is none.
    """

    value: str
    check: str = ""
    listed: bool = False


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


def facts_of(report: Mapping[str, Any]) -> tuple[dict[str, Told], Looked]:
    """The comparable facts of a report as short texts without secrets, and which checks looked."""
    rows = _rows(report)
    facts = {fact: Told(value, check, listed) for fact, check, listed, value in _all(report, rows)}
    if len(facts) > MOST:
        facts = {name: facts[name] for name in list(facts)[:MOST]}
    return facts, _looked(report, rows)


def clock_text(ahead: float) -> str:
    """How a node's clock stands to ours, as a value to compare: seconds that are certain."""
    return "in step" if abs(ahead) <= IN_STEP else f"{ahead:+.0f} s"


def _looked(report: Mapping[str, Any], rows: Iterable[dict[str, Any]]) -> Looked:
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


def _rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of the checks that tell facts."""
    rows = report.get("results")
    return [
        row
        for row in (rows[:MOST_ROWS] if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("check"), str) and row["check"] in _TELLING
    ]


def _all(report: Mapping[str, Any], rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str, bool, str]]:
    """Fact, check, whether it is an entry of a list, value."""
    for fact, path in _OF_REPORT.items():
        for value in _texts(fact, _at(report, path)):
            yield fact, "", False, value
    tables = {row["check"]: row["facts"] for row in rows if row.get("facts")}
    for fact, (check, *keys) in _OF_CHECK.items():
        for value in _texts(fact, _at(tables.get(check), keys)):
            yield fact, check, fact in _LISTED, value
    for value in _texts("CANN", _cann(tables)):
        yield "CANN", "cann-install", False, value
    yield from _named(tables)
    for fact, check, values in _sets(tables):
        for value in _texts(fact, " ".join(sorted(set(values))) or None):
            yield fact, check, False, value


def _sets(tables: Mapping[str, Any]) -> Iterator[tuple[str, str, Iterable[str]]]:
    """What each NPU or interface of a node has: all values that occur there."""
    yield "device TLS", "hccn-config", _leaves(tables.get("hccn-config"), "tls")
    yield "device MTU", "hccn-config", _leaves(tables.get("hccn-config"), "mtu")
    table = _at(tables.get("socket-interfaces"), ("mtu",))
    values = list(table.values())[:MOST] if isinstance(table, dict) else []
    yield "interface MTU", "socket-interfaces", [str(one)[:20] for one in values if type(one) is int]


def _named(tables: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """Variables, frameworks, interfaces: each entry is a fact."""
    for check, path in _TABLES.items():
        table = _at(tables.get(check), path)
        if isinstance(table, dict):
            for name, value in list(table.items())[:MOST]:
                if name not in _OWN:
                    for text in _texts(name[:LONGEST], value):
                        yield name[:LONGEST], check, True, text


def _cann(tables: Mapping[str, Any]) -> object:
    install = tables.get("cann-install")
    active = _at(install, ("active",))
    rows = _at(install, ("installs",))
    for row in rows[:MOST] if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("path") == active:
            return row.get("version")
    return _at(tables.get("cann-driver"), ("cann",))


def _at(value: Any, path: Any) -> Any:
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
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


def _leaves(value: object, name: str, depth: int = 0) -> Iterator[str]:
    if not isinstance(value, dict) or depth > 4:
        return
    for key, part in list(value.items())[:MOST]:
        if isinstance(key, str) and key.lower().startswith(name) and isinstance(part, (str, int)):
            yield str(part)[:LONGEST]
        else:
            yield from _leaves(part, name, depth + 1)


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
        for fact, (value, check, listed) in facts.items():
            if fact not in self._nodes and listed:
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
        found: list[Skew] = []
        open_facts: dict[str, list[str]] = {}
        for fact in self._nodes:
            none, unknown = self._without(fact)
            found += self._skew(fact, none)
            for node in unknown:
                open_facts.setdefault(node, []).append(fact)
        for node in self._left_out:
            open_facts.setdefault(node, []).append(
                _("all that came after the first {n} names of variables and packages", n=MOST_NAMES)
            )
        found.sort(key=lambda skew: (sum(len(other.nodes) for other in skew.others), skew.fact))
        return tuple(found), _gaps(open_facts)

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


def _gaps(open_facts: Mapping[str, list[str]]) -> tuple[Gap, ...]:
    nodes: dict[tuple[str, ...], list[str]] = {}
    for node, facts in open_facts.items():
        nodes.setdefault(tuple(facts), []).append(node)
    ranked = sorted(nodes.items(), key=lambda item: (-len(item[1]), item[1]))
    return tuple(Gap(facts, tuple(names)) for facts, names in ranked)
