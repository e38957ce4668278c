"""The signatures of failures: data of this package and of the site, each row judged before it is used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Optional

from npudoctor import knowledge
from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.messages import _
from npudoctor.explain.signatures.judging import find_faults
from npudoctor.explain.signatures.number_patterns import number_patterns
from npudoctor.knowledge.site import BrokenEntry, Knowledge
from npudoctor.knowledge.tables import BUILT_IN, parse_toml

FOLDER = os.path.join(os.path.dirname(knowledge.__file__), "signatures")
# What real logs say for and against each signature.
EVIDENCE = os.path.join(FOLDER, "evidence.toml")
LEAST_REPOSITORIES = 5  # that speak for a signature which may be certain


@dataclass(frozen=True)
class Example:
    """A piece of a log, and whether the signature is to be found in it."""

    log: str
    match: bool


@dataclass(frozen=True)
class Signature:
    """One failure as it is written in logs, what it means and what to do. See docs/signatures.md."""

    id: str
    category: str
    environment: bool
    weight: int
    patterns: tuple[str, ...]
    title: Mapping[str, str]
    cause: Mapping[str, str]
    remedy: Mapping[str, Sequence[str]]
    checks: tuple[str, ...]
    source: str
    as_of: str
    near: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    within: int = 30
    own: bool = False  # only where the module that the line names is the job's own
    deepest: bool = False  # only where the last frame of the traceback above is of an installed package
    numbered: bool = False  # nothing but return numbers: the title is what the number that was found means
    fallback: bool = False  # only asked of the line that ended a job, when nothing else explains it
    consequence: bool = (
        False  # what another process wrote when the one that failed was gone: it tells no cause
    )
    elsewhere: Optional[Mapping[str, Mapping[str, str]]] = (
        None  # "what" the cause is and "where" it is written
    )
    proven: bool = False  # see evidence.toml
    echo_of: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    era: Optional[str] = None
    examples: tuple[Example, ...] = field(default=())
    origin: str = BUILT_IN


class InvalidSignature(ValueError):
    """A row that is no signature; the text says which and why."""


@cache
def built_in() -> tuple[Signature, ...]:
    """Our own signatures; Invalid when one of them is none, which a test rules out."""
    signatures: dict[str, Signature] = {}
    proven = proven_ids()
    for name in names():
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            document = parse_toml(file.read())
        for signature in signatures_of(document, BUILT_IN):
            if signature.id in signatures:
                raise InvalidSignature(_("{id}: there are two signatures with this id", id=signature.id))
            signatures[signature.id] = replace(signature, proven=signature.id in proven)
    return tuple(signatures.values())


def proven_ids() -> frozenset[str]:
    """The signatures of which enough independent real logs are known, and none in which they are wrong."""
    with open(EVIDENCE, encoding="utf-8") as file:
        evidence = parse_toml(file.read())
    return frozenset(
        ident
        for ident, logs in evidence.items()
        if not logs.get("wrong")
        and len({source.partition("#")[0].lower() for source in logs.get("right", ())}) >= LEAST_REPOSITORIES
    )


def names() -> list[str]:
    """The files in all rooms, by path below FOLDER; in the order of their own names, wherever they are."""
    rooms = (
        (os.path.relpath(room, FOLDER), files) for room, _rooms, files in os.walk(FOLDER) if room != FOLDER
    )
    paths = (os.path.join(room, name) for room, files in rooms for name in files if name.endswith(".toml"))
    # A file may move to another folder without changing the order of the signatures.
    return sorted(paths, key=os.path.basename)


def signatures_of(document: Mapping[str, Any], origin: str) -> Iterator[Signature]:
    """The signatures of a file; Invalid at the first row that is none."""
    strange = set(document) - {"signature", "source", "as_of"}
    if strange:
        raise InvalidSignature(_("unknown key {key}", key=min(strange)))
    rows = document.get("signature", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidSignature(_("signature: not a list of rows"))
    defaults = {key: document[key] for key in ("source", "as_of") if key in document}
    for row in rows:
        yield signature_of({**defaults, **row}, origin)


def signature_of(row: Mapping[str, Any], origin: str) -> Signature:
    """One row as a signature; Invalid when it is none."""
    for reason in find_faults(row):
        raise InvalidSignature(f"{row.get('id', '?')}: {reason}")
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    examples = tuple(Example(example["log"], example["match"]) for example in values.pop("example", ()))
    numbers = (*values.pop("numbers", ()), *values.pop("hccl", ()))
    if numbers:
        values["patterns"] = (*values.get("patterns", ()), *number_patterns(row))
        values["codes"] = (*numbers, *values.get("codes", ()))
    values.setdefault("checks", ())
    # A site answers for its own: it knows its logs.
    return Signature(**values, examples=examples, origin=origin, proven=origin != BUILT_IN)


def all_signatures(knowledge: Knowledge) -> tuple[tuple[Signature, ...], list[BrokenEntry]]:
    """The site's signatures and ours, and what of the site's could not be used. One of the site's takes the
    place of ours of the same id."""
    of_site, broken = site_signatures(knowledge)
    ours = [signature for signature in built_in() if signature.id not in of_site]
    return (*of_site.values(), *ours), broken


def site_signatures(knowledge: Knowledge) -> tuple[dict[str, Signature], list[BrokenEntry]]:
    """The site's signatures by their id, and what of its files could not be used."""
    signatures: dict[str, Signature] = {}
    broken = [entry for entry in knowledge.broken() if entry.table is None]
    for path, document in knowledge.signature_files():
        try:
            rows = list(signatures_of(document, path))
        except InvalidSignature as reason:
            broken.append(BrokenEntry(path, str(reason)))
            continue
        for signature in rows:
            if signature.id in signatures:
                text = _("{id}: there are two signatures with this id", id=signature.id)
                broken.append(BrokenEntry(path, text))
            signatures.setdefault(signature.id, signature)
    return signatures, broken
