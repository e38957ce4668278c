"""What is published about CANN and the driver beside it, and where a pair stands among those rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.driver_version import Key, is_in_line, sort_key
from npudoctor.core.frozen import dataclass
from npudoctor.knowledge.tables import Row


@dataclass(frozen=True)
class Declared:
    """What the rows say of a pair. `verdict`: compatible, incompatible, not-listed, newer-driver, newer-cann.

    `recommended` and `nearest` are drivers, as published; `nearest` of a newer CANN is a CANN.
    """

    verdict: str
    recommended: tuple[str, ...]
    nearest: tuple[str, ...]
    source: str
    as_of: str


def declared_for(rows: Sequence[Row], cann: str, driver: str) -> Optional[Declared]:
    """What is declared of this CANN and this driver; None when no row is about this CANN.

    A release that no row names is judged by the rows of its line: 8.3.RC2 by those of 8.3.
    """
    about = [row for row in rows if any(is_in_line(cann, _line(name)) for name in row.texts("cann"))]
    own = bool(about)
    about = about or [
        row for row in rows if any(_series(name) == _series(cann) for name in row.texts("cann"))
    ]
    if not about:
        newest = max(rows, key=lambda row: max(sort_key(_line(name)) for name in row.texts("cann")))
        name = max(newest.texts("cann"), key=lambda name: sort_key(_line(name)))
        if sort_key(cann) < sort_key(_line(name)):
            return None
        return Declared("newer-cann", (), (name,), newest["source"], newest["as_of"])
    # Of a release before all that are named in its line, an older driver may be the right one.
    least = own or any(sort_key(_line(name)) <= sort_key(cann) for row in about for name in row.texts("cann"))
    works = [row for row in about if row.values.get("compatible", True)]
    known = _list_drivers(works, "drivers")
    against = [row for row in about if row not in works and _matches(driver, row.texts("drivers"))]
    verdict, nearest = ("incompatible", tuple(known)) if against else _place(driver, known, least)
    if verdict == "not-listed" and not least:
        return None
    named = [row for row in works if _matches(driver, row.texts("drivers"))]
    deciding = (*against, *named, *about)[0]
    return Declared(
        verdict, tuple(_list_drivers(works, "recommended")), nearest, deciding["source"], deciding["as_of"]
    )


def _place(driver: str, known: list[str], least: bool) -> tuple[str, tuple[str, ...]]:
    """Where a driver stands among those declared to work; a later patch belongs to its line.

    `least`: whether one before the first of its line that is declared is not of that line.
    """
    line = [sort_key(_line(name)) for name in known if _series(name) == _series(driver)]
    if _matches(driver, known) or (line and (not least or sort_key(driver) >= min(line))):
        return "compatible", ()
    below = [name for name in known if sort_key(_line(name)) < sort_key(driver)]
    above = [name for name in known if sort_key(_line(name)) > sort_key(driver)]
    return ("not-listed" if above else "newer-driver"), (*below[-1:], *above[:1])


def _list_drivers(rows: Sequence[Row], field: str) -> list[str]:
    """The drivers that rows name, oldest first, each once whatever its case."""
    named = (name for row in rows for name in row.texts(field))
    once = {_line(name).lower(): name for name in named}
    return sorted(once.values(), key=lambda name: sort_key(_line(name)))


def _matches(version: str, names: Sequence[str]) -> bool:
    return any(is_in_line(version, _line(name)) for name in names)


def _line(name: str) -> str:
    """A published name without the X that stands for any number."""
    return name[:-2] if name.lower().endswith(".x") else name


def _series(version: str) -> Key:
    return sort_key(_line(version))[:2]
