"""What must be alike on all nodes of a job and is not: the majority, and who deviates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.redact.redact import redact_value

IN_STEP = 1.5  # seconds: a node tells whole ones
LONGEST = 200  # characters of a value
MOST = 400  # facts of one node; a real one has about 40

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
    "rank table digest": ("rank-table", "digest"),
    "rank table template": ("rank-table", "template"),
    "rank table servers": ("rank-table", "servers"),
    "rank table ranks": ("rank-table", "ranks"),
    "clock synchronised": ("clock", "synchronised"),
    "open files, soft limit": ("file-limits", "soft"),
}
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
# Each node has its own.
_OWN = frozenset(
    "HCCL_IF_IP RANK RANK_ID LOCAL_RANK NODE_RANK GROUP_RANK DEVICE_ID ASCEND_DEVICE_ID POD_IP".split()
)
_LOOKED = frozenset(("ok", "problem", "skipped"))


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


def facts_of(report: Mapping[str, Any]) -> dict[str, str]:
    """The comparable facts of a report as short texts without secrets."""
    facts = dict(_all(report))
    return {name: facts[name] for name in list(facts)[:MOST]}


def clock_text(ahead: float) -> str:
    """How a node's clock stands to ours, as a value to compare: seconds that are certain."""
    return "in step" if abs(ahead) <= IN_STEP else f"{ahead:+.0f} s"


def looked_at(report: Mapping[str, Any], statuses: Mapping[str, str]) -> frozenset[str]:
    """The checks that looked: where one of these tells no value, there is none."""
    if report.get("profile") == "quick" or report.get("scope") == "node":
        return frozenset()
    return frozenset(check for check, status in statuses.items() if status in _LOOKED)


def _all(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for fact, path in _OF_REPORT.items():
        yield from _entry(fact, _at(report, path))
    rows = report.get("results")
    tables: dict[str, Any] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("facts") and isinstance(row.get("check"), str):
            tables[row["check"]] = row["facts"]
    for fact, (check, *keys) in _OF_CHECK.items():
        yield from _entry(fact, _at(tables.get(check), keys))
    yield from _entry("CANN", _cann(tables))
    yield from _named(tables)
    for name in ("tls", "mtu"):
        values = sorted(set(_leaves(tables.get("hccn-config"), name)))
        yield from _entry(f"device {name.upper()}", " ".join(values) or None)


def _named(tables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Variables, frameworks, interfaces: each entry is a fact."""
    for check, path in _TABLES.items():
        table = _at(tables.get(check), path)
        if isinstance(table, dict):
            for name, value in list(table.items())[:MOST]:
                if name not in _OWN:
                    yield from _entry(name[:LONGEST], value)


def _cann(tables: Mapping[str, Any]) -> object:
    install = tables.get("cann-install")
    active = _at(install, ("active",))
    rows = _at(install, ("installs",))
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("path") == active:
            return row.get("version")
    return _at(tables.get("cann-driver"), ("cann",))


def _at(value: Any, path: Any) -> Any:
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _entry(fact: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, bool):
        yield fact, "yes" if value else "no"
    elif isinstance(value, (int, float)):
        yield fact, str(value)[:LONGEST]
    elif isinstance(value, list) and all(isinstance(part, str) for part in value[:MOST]):
        yield from _entry(fact, " ".join(value[:MOST]))
    elif isinstance(value, str) and value:
        shown = redact_value({fact: value[:LONGEST]})
        yield fact, str(shown[fact]) if isinstance(shown, dict) else ""


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
        self._without: dict[frozenset[str], list[str]] = {}

    def add(self, node: str, facts: Mapping[str, str], looked: frozenset[str]) -> None:
        """The facts of one node, and which checks looked there."""
        for fact, value in facts.items():
            self._nodes.setdefault(fact, {}).setdefault(value, []).append(node)
        self._without.setdefault(looked, []).append(node)

    def skews(self) -> tuple[Skew, ...]:
        """What differs, fewest deviating nodes first: one node unlike all others is the likely cause."""
        found = [skew for fact in self._nodes for skew in self._skew(fact)]
        return tuple(sorted(found, key=lambda skew: (sum(len(o.nodes) for o in skew.others), skew.fact)))

    def _skew(self, fact: str) -> Iterator[Skew]:
        values: dict[Optional[str], list[str]] = dict(self._nodes[fact].items())
        unset = self._unset(fact)
        if unset:
            values[None] = unset
        if len(values) < 2:
            return
        ranked = sorted(values.items(), key=lambda item: (-len(item[1]), item[0] is None, item[0] or ""))
        first, *others = (Deviation(value, tuple(nodes)) for value, nodes in ranked)
        yield Skew(fact, first, tuple(others))

    def _unset(self, fact: str) -> list[str]:
        """Nodes that were looked at and have no such variable or package."""
        check = _check_of(fact)
        if check is None:
            return []
        known = {node for nodes in self._nodes[fact].values() for node in nodes}
        return [
            node
            for looked, nodes in self._without.items()
            if check in looked
            for node in nodes
            if node not in known
        ]


def _check_of(fact: str) -> Optional[str]:
    """The check that tells a variable, where its silence means that it is not set."""
    if fact in _OWN or not fact.replace("_", "").isalnum() or fact != fact.upper():
        return None
    return "hccl-env" if fact.startswith("HCCL_") else "nccl-env" if fact.startswith("NCCL_") else None
