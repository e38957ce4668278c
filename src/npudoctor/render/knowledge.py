"""Lists the compatibility tables and their origins: as text, and as npudoctor.knowledge/1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from npudoctor.core.messages import _
from npudoctor.knowledge.site import Knowledge
from npudoctor.knowledge.tables import BUILT_IN, list_tables, load_table
from npudoctor.render.printable import printable

SCHEMA = "npudoctor.knowledge/1"


def knowledge_object(knowledge: Knowledge) -> dict[str, Any]:
    """The npudoctor.knowledge/1 document as plain data."""
    rows = [
        {"table": where, "rows": count, "as_of": as_of or None, "origin": origin}
        for where, count, as_of, origin in _table_rows(knowledge)
    ]
    broken = [{"path": broken.path, "reason": broken.reason} for broken in knowledge.broken()]
    site = knowledge.directory or None
    return {"schema": SCHEMA, "site": site, "tables": rows, "broken": broken}


def knowledge_text(knowledge: Knowledge) -> str:
    """One line per table and origin; then the files of the site that cannot be used."""
    lines = [
        (where, str(count), as_of, _("built-in") if origin == BUILT_IN else origin)
        for where, count, as_of, origin in _table_rows(knowledge)
    ]
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(3)]
    rows = [
        f"{where:{widths[0]}}  {count:>{widths[1]}}  {as_of:{widths[2]}}  {printable(origin)}\n"
        for where, count, as_of, origin in lines
    ]
    rows += [
        _("not used: {path}: {why}", path=printable(broken.path), why=printable(broken.reason)) + "\n"
        for broken in knowledge.broken()
    ]
    return "".join(rows)


def _table_rows(knowledge: Knowledge) -> Iterator[tuple[str, int, str, str]]:
    """Yield table and section, number of rows, the date of the newest row, and the origin."""
    site = knowledge.site_rows()
    for name in list_tables():
        for section, built_in_rows in load_table(name).items():
            if not isinstance(built_in_rows, list) or not all(isinstance(row, dict) for row in built_in_rows):
                continue  # a plain value, or a list of texts: nothing with a date
            place = f"{name}.{section}"
            yield (
                place,
                len(built_in_rows),
                max((row.get("as_of", "") for row in built_in_rows), default=""),
                BUILT_IN,
            )
            site_rows = site.get((name, section), [])
            for origin, count in Counter(row.origin for row in site_rows).items():
                times = (row.values.get("as_of", "") for row in site_rows if row.origin == origin)
                yield place, count, max(times), origin
