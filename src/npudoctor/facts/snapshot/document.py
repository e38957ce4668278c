"""A snapshot, or a report, read back from a file that anybody may have written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.parsing import TooMuch, json_of
from npudoctor.core.redact.redact import redact_value
from npudoctor.facts.snapshot.values import Value

SNAPSHOT, REPORT = "npudoctor.snapshot/1", "npudoctor.report/1"
LARGEST = 4 << 20  # bytes of a file; a snapshot of a large environment has about 100 KB
MOST = 20_000  # facts of a section
# One for each check, and a dozen more.
MOST_SECTIONS = 400
LONGEST = 16_384  # characters of a value; a search path of libraries may have several thousand
LONGEST_NAME = 300
DEEPEST = 6  # tables within the facts of a check
LONGEST_NUMBER = 40  # digits; Python takes minutes to read one of a million
CHECK = "check "  # before the id of a check, in the name of its section
# Rows of a report in which the check has looked at everything.
LOOKED = frozenset(("ok", "problem", "skipped"))


class UnreadableSnapshot(ValueError):
    """The text is no snapshot and no report; the message completes a sentence that names the file."""


@dataclass(frozen=True)
class Unread:
    """What could not be read. `fact` "": nothing more of that section. `advisory`: see Fact."""

    section: str
    fact: str
    reason: str
    advisory: bool = False


@dataclass(frozen=True)
class Snapshot:
    """What a file tells of a node. `sections`: those that it has, an empty one too.

    Not `whole`: it is a report, which tells only some facts of each section.
    """

    node: str
    started: str
    whole: bool
    sections: Mapping[str, Mapping[str, Value]]
    unread: tuple[Unread, ...] = ()


def parse(content: bytes) -> Snapshot:
    """The snapshot or report that a file contains; UnreadableSnapshot when it is neither."""
    document = load(content)
    schema = document.get("schema")
    if schema == SNAPSHOT:
        return of_object(document)
    if schema == REPORT:
        return _of_report(document)
    raise UnreadableSnapshot(
        _(
            "its schema is {schema}, not {known}",
            schema=_bounded_text(schema) or "-",
            known=f"{SNAPSHOT}, {REPORT}",
        )
    )


def _of_report(document: Mapping[str, Any]) -> Snapshot:
    """The facts in a report, under the names that a snapshot has for them."""
    host = _table(document, "host")
    python = _table(_table(document, "target"), "python")
    checks, unread = _rows(document)
    accelerators: dict[str, Value] = {}
    for kind in ("npu", "gpu"):
        devices = checks.get("accelerator", {}).get(kind)
        if isinstance(devices, dict) and isinstance(devices.get("nodes"), list):
            accelerators[f"{kind.upper()}s"] = len(devices["nodes"])
            accelerators.update(_read_values({f"{kind.upper()} models": devices.get("models")}))
    cann = checks.get("cann-install", {})
    installs = cann.get("installs")
    active: dict[str, Any] = {}
    for row in installs if isinstance(installs, list) else ():
        if isinstance(row, dict) and row.get("path") == cann.get("active"):
            active = {"version": row.get("version"), "path": cann.get("active")}
            break
    pair = checks.get("driver-firmware", {})
    sections: dict[str, Mapping[str, Value]] = {
        "system": _drop_unknown({
            "kernel": host.get("release"),
            "architecture": host.get("machine"),
            "distribution": host.get("distribution"),
            "container": host.get("container"),
        }),
        "python": _drop_unknown({"path": python.get("path"), "version": python.get("version")}),
        "accelerator": accelerators,
        "cann": dict(_read_values(active)),
        "driver": _drop_unknown({"NPU driver": pair.get("driver"), "NPU firmware": pair.get("firmware")}),
    }  # fmt: skip
    sections.update({CHECK + _bounded_name(check): dict(_flatten(table)) for check, table in checks.items()})
    return Snapshot(
        _bounded_text(host.get("name")),
        _bounded_text(document.get("started")),
        False,
        sections,
        tuple(unread),
    )


def load(content: bytes) -> dict[str, Any]:
    """The JSON object of a file, read in bounded time; UnreadableSnapshot where it is none."""
    # Before anything is parsed: the file may come from anybody.
    if len(content) > LARGEST:
        raise UnreadableSnapshot(_("it is larger than {most} bytes", most=LARGEST))
    try:
        document = json_of(content, parse_int=_integer, parse_float=_number, parse_constant=_constant)
    except TooMuch as error:
        raise UnreadableSnapshot(str(error)) from error
    except ValueError as error:
        raise UnreadableSnapshot(_("it is not valid JSON")) from error
    if not isinstance(document, dict):
        raise UnreadableSnapshot(_("it is not a JSON object"))
    return document


def _integer(digits: str) -> int:
    """Called by the parser, as the two below: no number may take long to read."""
    return int(_limit_digits(digits))


def _number(digits: str) -> float:
    """A fraction, or one with an exponent."""
    number = float(_limit_digits(digits))
    if not math.isfinite(number):  # 1e999: no JSON could carry it on
        raise ValueError("a number is too large")
    return number


def _limit_digits(digits: str) -> str:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return digits


def _constant(name: str) -> float:
    """NaN or Infinity."""
    raise ValueError(f"{name} is not JSON")


def of_object(document: Mapping[str, Any]) -> Snapshot:
    """A snapshot from its JSON document; values of a wrong type are left out."""
    sections = {
        _bounded_name(section): dict(_read_values(table))
        for section, table in list(_table(document, "facts").items())[:MOST_SECTIONS]
        if isinstance(table, dict)
    }
    checks = list(_table(document, "checks").items())[:MOST_SECTIONS]
    sections.update({CHECK + _bounded_name(check): dict(_flatten(table)) for check, table in checks})
    rows = document.get("unread")
    unread = tuple(
        _unread(row)
        for row in (rows if isinstance(rows, list) else [])[:MOST]
        if (isinstance(row, dict) and isinstance(row.get("section"), str))
    )
    host = _table(document, "host")
    return Snapshot(
        _bounded_text(host.get("name")), _bounded_text(document.get("started")), True, sections, unread
    )


def _unread(row: Mapping[str, Any]) -> Unread:
    reason = str(redact_value(_bounded_text(row.get("reason"), LONGEST_NAME)))
    return Unread(
        _bounded_name(row["section"]), _bounded_text(row.get("fact")), reason, row.get("advisory") is True
    )


def _rows(document: Mapping[str, Any]) -> tuple[dict[str, Mapping[str, Any]], list[Unread]]:
    """The facts of each check, by its id, and which checks could not look."""
    rows = document.get("results")
    checks: dict[str, Mapping[str, Any]] = {}
    unread = []
    for row in (rows if isinstance(rows, list) else [])[:MOST_SECTIONS]:
        if isinstance(row, dict) and isinstance(row.get("check"), str):
            checks[row["check"]] = _table(row, "facts")
            # A check that could not look: its facts may be incomplete.
            if row.get("status") not in LOOKED:
                entry = {
                    **row,
                    "section": CHECK + row["check"],
                    "fact": "",
                    "advisory": not row.get("needed"),
                }
                unread.append(_unread(entry))
    return checks, unread


def _drop_unknown(values: Mapping[str, object]) -> Mapping[str, Value]:
    return dict(_read_values({name: value for name, value in values.items() if value is not None}))


def _read_values(table: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Yield the entries of a section that are facts."""
    for name, value in list(table.items())[:MOST]:
        ok, plain = _value(value)
        if ok:
            yield _bounded_name(name), plain


def _flatten(table: object, before: str = "", depth: int = 0) -> Iterator[tuple[str, Value]]:
    """Yield the facts of a check, whose tables contain tables: each leaf with its path."""
    if not isinstance(table, dict) or depth > DEEPEST:
        return
    for name, value in list(table.items())[:MOST]:
        way = f"{before}{_bounded_name(name)}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{way} ", depth + 1)
        else:
            shown = redact_value({name: value})
            ok, plain = _value(shown[name] if isinstance(shown, dict) else None)
            yield way, plain if ok else json.dumps(value, sort_keys=True)[:LONGEST]


def _value(value: object) -> tuple[bool, Value]:
    """(whether it can be the value of a fact, the value with bounded texts and without secrets)."""
    if value is None or isinstance(value, (bool, int, float)):
        return True, value
    if isinstance(value, str):
        return True, str(redact_value(value[:LONGEST]))
    if isinstance(value, list) and len(value) <= MOST and all(isinstance(part, str) for part in value):
        return True, tuple(str(redact_value(part[:LONGEST])) for part in value)
    return False, None


def _table(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    table = document.get(key)
    return table if isinstance(table, dict) else {}


def _bounded_name(text: str) -> str:
    return text[:LONGEST_NAME]


def _bounded_text(value: object, most: int = 100) -> str:
    return value[:most] if isinstance(value, str) else ""
