"""Judges a pair of CANN and driver by the rows that are published about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.driver_version import Key, is_in_line, sort_key
from npudoctor.core.frozen import dataclass
from npudoctor.knowledge.tables import KnowledgeRow


@dataclass(frozen=True)
class DriverDeclaration:
    """What the rows declare about a pair. `verdict`: compatible, incompatible, not-listed, newer-driver or
    newer-cann.

    `recommended` and `nearest` are drivers, as published; `nearest` of a newer CANN is a CANN.
    """

    verdict: str
    recommended: tuple[str, ...]
    nearest: tuple[str, ...]
    source: str
    as_of: str


def find_declaration(rows: Sequence[KnowledgeRow], cann: str, driver: str) -> Optional[DriverDeclaration]:
    """What is declared of this CANN and this driver; None when no row is about this CANN.

    A release that no row names is judged by the rows of its line: 8.3.RC2 by those of 8.3.
    """
    about = [row for row in rows if any(is_in_line(cann, _line(name)) for name in row.texts("cann"))]
    has_own_rows = bool(about)
    about = about or [
        row for row in rows if any(_series(name) == _series(cann) for name in row.texts("cann"))
    ]
    if not about:
        newest = max(rows, key=lambda row: max(sort_key(_line(name)) for name in row.texts("cann")))
        name = max(newest.texts("cann"), key=lambda name: sort_key(_line(name)))
        if sort_key(cann) < sort_key(_line(name)):
            return None
        return DriverDeclaration("newer-cann", (), (name,), newest["source"], newest["as_of"])
    # Of a release before all that are named in its line, an older driver may be the right one.
    is_after_first = has_own_rows or any(
        sort_key(_line(name)) <= sort_key(cann) for row in about for name in row.texts("cann")
    )
    works = [row for row in about if row.values.get("compatible", True)]
    working_drivers = _list_drivers(works, "drivers")
    against = [row for row in about if row not in works and _matches(driver, row.texts("drivers"))]
    verdict, nearest = (
        ("incompatible", tuple(working_drivers))
        if against
        else _place_driver(driver, working_drivers, is_after_first)
    )
    if verdict == "not-listed" and not is_after_first:
        return None
    matching = [row for row in works if _matches(driver, row.texts("drivers"))]
    deciding = (*against, *matching, *about)[0]
    return DriverDeclaration(
        verdict, tuple(_list_drivers(works, "recommended")), nearest, deciding["source"], deciding["as_of"]
    )


def _place_driver(
    driver: str, working_drivers: list[str], is_after_first: bool
) -> tuple[str, tuple[str, ...]]:
    """Where a driver stands among those declared to work; a later patch belongs to its line.

    `is_after_first`: whether one before the first of its line that is declared is not of that line.
    """
    line = [sort_key(_line(name)) for name in working_drivers if _series(name) == _series(driver)]
    if _matches(driver, working_drivers) or (line and (not is_after_first or sort_key(driver) >= min(line))):
        return "compatible", ()
    below = [name for name in working_drivers if sort_key(_line(name)) < sort_key(driver)]
    above = [name for name in working_drivers if sort_key(_line(name)) > sort_key(driver)]
    return ("not-listed" if above else "newer-driver"), (*below[-1:], *above[:1])


def _list_drivers(rows: Sequence[KnowledgeRow], field: str) -> list[str]:
    """The drivers that rows name, oldest first, each once whatever its case."""
    names = (name for row in rows for name in row.texts(field))
    name_by_line = {_line(name).lower(): name for name in names}
    return sorted(name_by_line.values(), key=lambda name: sort_key(_line(name)))


def _matches(version: str, names: Sequence[str]) -> bool:
    return any(is_in_line(version, _line(name)) for name in names)


def _line(name: str) -> str:
    """A published name without the X that stands for any number."""
    return name[:-2] if name.lower().endswith(".x") else name


def _series(version: str) -> Key:
    return sort_key(_line(version))[:2]
