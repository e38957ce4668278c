"""Which signatures fire on healthy logs, and which never fired on any real one: those are reviewed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import long_logs
from npudoctor.explain.engine import Engine
from npudoctor.explain.scanning.evidence import Evidence

_HEALTHY = ("succeeded", "running")


def lines(engine: Engine, paths: Sequence[Path]) -> Iterator[str]:
    """Of each signature that is loud on a healthy log where; then the ids of those that are on no log at
    all."""
    loud: dict[str, list[str]] = {}
    seen: set[str] = set()
    for name, healthy, evidence in _read(engine, paths):
        for owner, found in evidence.matches.items():
            ident = engine.table.signatures[owner].id
            seen.add(ident)
            if healthy and found.last is not None:
                where = min(
                    (one for one in found.ranks.values() if not one.is_mild), key=lambda one: one.line
                )
                loud.setdefault(ident, []).append(f"{name}:{where.line}: {where.text[:100]}")
    yield "loud on healthy logs (outlived there; too broad where the line is no error):"
    yield from (f"  {ident} ({len(spots)}): {spots[0]}" for ident, spots in sorted(loud.items()))
    never = [one.id for one in engine.table.signatures if one.id not in seen]
    yield f"never on a real log here ({len(never)} of {len(engine.table.signatures)}):"
    yield from (f"  {ident}" for ident in never)


def _read(engine: Engine, paths: Sequence[Path]) -> Iterator[tuple[str, bool, Evidence]]:
    """Name, whether it is healthy, and what is found, of every case and log."""
    for path in paths:
        if path.is_dir():
            texts = long_logs.logs(path)
            for truth in long_logs.truths(path / "truth.tsv"):
                if truth.name in texts:
                    yield truth.name, truth.kind in _HEALTHY, long_logs.evidence_of(engine, texts, truth.name)
            continue
        for row in map(json.loads, filter(str.strip, path.read_text(encoding="utf-8").splitlines())):
            yield row["id"], row["category"] in (None, "healthy"), engine.scan_text(row["log"], row["id"])
