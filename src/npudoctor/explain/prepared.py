"""The table of all signatures, made once and kept in the cache: to judge hundreds of patterns takes longer
than to read most logs."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Optional

from npudoctor.explain import signatures as source
from npudoctor.explain.cache import Cache
from npudoctor.explain.patterns import Literal
from npudoctor.explain.signatures import Signature, all_signatures
from npudoctor.explain.table import Chain, Needle, Table, table_of
from npudoctor.frozen import dataclass
from npudoctor.knowledge.site import Broken, Knowledge

_CODE = ("failures.py", "judging.py", "patterns.py", "prepared.py", "signatures.py", "table.py")


@dataclass(frozen=True)
class Prepared:
    """The table, and what of the site's signatures could not be used."""

    table: Table
    broken: tuple[Broken, ...]


def prepared(knowledge: Knowledge, cache: Optional[Cache]) -> Prepared:
    """The table of ours and the site's signatures; from the cache when nothing that it is made of changed."""
    name = f"table-{_key(knowledge)}.json" if cache else ""
    kept = cache.get(name) if cache else None
    if kept is not None:
        try:
            return _read(json.loads(kept))
        except (ValueError, KeyError, TypeError):
            pass  # it was not ours after all: made again
    found, broken = all_signatures(knowledge)
    made = Prepared(table_of(found), tuple(broken))
    if cache:
        cache.put(name, json.dumps(_written(made), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return made


def _key(knowledge: Knowledge) -> str:
    digest = hashlib.sha256(sys.version.encode())
    here = os.path.dirname(__file__)
    paths = [os.path.join(here, name) for name in _CODE]
    for path in (*paths, *(os.path.join(source.FOLDER, name) for name in source.names())):
        with open(path, "rb") as file:
            digest.update(path.encode() + b"\0" + file.read() + b"\0")
    for path, document in knowledge.signature_files():
        digest.update(json.dumps([path, document], sort_keys=True, default=str).encode() + b"\0")
    digest.update(repr([(one.path, one.reason) for one in knowledge.broken()]).encode())
    return digest.hexdigest()[:32]


def _written(made: Prepared) -> dict[str, Any]:
    table = made.table
    return {
        "signatures": [{**asdict(one), "examples": []} for one in table.signatures],
        "needles": [[one.pattern, one.owner, one.role] for one in table.needles],
        "literals": [[one.text, one.caseless] for one in table.literals],
        "owners": table.owners,
        "chains": [
            [[[[one.text, one.caseless] for one in link] for link in chain.links], chain.needed]
            for chain in table.chains
        ],
        "broken": [asdict(one) for one in made.broken],
    }


def _read(kept: Mapping[str, Any]) -> Prepared:
    table = Table(
        tuple(Signature(**{key: _tuple(value) for key, value in row.items()}) for row in kept["signatures"]),
        tuple(Needle(*row) for row in kept["needles"]),
        tuple(Literal(*row) for row in kept["literals"]),
        tuple(map(tuple, kept["owners"])),
        tuple(
            Chain(tuple(tuple(Literal(*one) for one in link) for link in links), needed)
            for links, needed in kept["chains"]
        ),
    )
    return Prepared(table, tuple(Broken(**row) for row in kept["broken"]))


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
