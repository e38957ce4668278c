"""Renders the comparison of two snapshots: as text, and as npudoctor.diff/1 (keys are added, never
changed)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from npudoctor import __version__
from npudoctor.core.messages import _, ngettext
from npudoctor.core.redact.bundle import helps_support
from npudoctor.facts.snapshot.compare import Difference, SnapshotComparison, Uncompared, only_in
from npudoctor.facts.snapshot.document import CHECK, Snapshot
from npudoctor.facts.snapshot.values import Value
from npudoctor.render.columns import WIDTH, pad, paragraph, width
from npudoctor.render.printable import printable

SCHEMA = "npudoctor.diff/1"
_VERDICTS = {0: "alike", 1: "different", 2: "undetermined"}
INDENT, DEEPER = "  ", " " * 6
SHOWN = 2000  # characters of one value
NAMES = 24  # columns of the names of facts, at most
OWN = 12  # how many facts that differ by nature (host name, address) are named


def diff_text(
    names: tuple[str, str], sides: tuple[Snapshot, Snapshot], comparison: SnapshotComparison
) -> str:
    """The comparison as text."""
    lines = [
        *(line for index in (0, 1) for line in _side_lines("AB"[index], names[index], sides[index])),
        *_section_lines(comparison.differences),
        *_uncompared_lines(comparison.uncompared),
        *_own_lines(comparison.own),
        "",
        *paragraph(diff_line(comparison), "", INDENT),
    ]
    return "\n".join(lines) + "\n"


def diff_line(comparison: SnapshotComparison) -> str:
    """The verdict with the numbers of facts, in one line."""
    count = len(comparison.differences)
    unknown = len(comparison.uncompared)
    if count:
        text = ngettext("different: {count} fact", "different: {count} facts", count, count=count)
    elif comparison.exit_code:
        text = _("undetermined: no difference was found, but not everything could be compared")
    else:
        text = _("alike")
    parts = [
        text,
        ngettext(
            "{count} fact is alike", "{count} facts are alike", comparison.alike, count=comparison.alike
        ),
    ]
    if unknown:
        parts.append(ngettext("{count} not comparable", "{count} not comparable", unknown, count=unknown))
    return _("; ").join(parts)


def _side_lines(letter: str, name: str, side: Snapshot) -> Iterator[str]:
    words = [
        name,
        side.node,
        side.started,
        "" if side.whole else _("a report (contains less than a snapshot)"),
    ]
    yield from paragraph(", ".join(word for word in words if word), f"{letter}: ", "   ")


def _section_lines(differences: Sequence[Difference]) -> Iterator[str]:
    for section, group in groupby(differences, key=lambda difference: difference.section):
        members = list(group)
        yield ""
        yield printable(_section_title(section))
        columns = min(NAMES, max(width(printable(difference.fact)) for difference in members))
        for difference in members:
            yield from _difference_lines(difference, columns)


def _section_title(section: str) -> str:
    if section.startswith(CHECK):
        return _("check {id}", id=section[len(CHECK) :])
    titles = {
        "system": _("system"),
        "accelerator": _("accelerators"),
        "driver": _("drivers"),
        "cann": "CANN",
        "python": "Python",
        "packages": _("Python packages"),
        "variables": _("variables"),
        "limits": _("limits"),
        "cgroup": _("control groups"),
        "sysctls": _("kernel settings"),
        "network": _("network interfaces"),
        "hccn": _("network ports of the NPUs"),
    }
    return titles.get(section, section)


def _difference_lines(difference: Difference, columns: int) -> Iterator[str]:
    name, first, second = (
        printable(difference.fact),
        value_text(difference.first),
        value_text(difference.second),
    )
    half = (WIDTH - columns - len(INDENT) - 4) // 2
    if width(name) <= columns and max(map(width, (printable(first), printable(second)))) <= half:
        yield f"{INDENT}{pad(name, columns)}  {pad(printable(first), half)}  {printable(second)}".rstrip()
        return
    yield from paragraph(name, INDENT, INDENT)
    # The two values are too long for one line; of two lists only the entries that differ are shown.
    only_first, only_second = (
        only_in(difference.first, difference.second),
        only_in(difference.second, difference.first),
    )
    if only_first is None or only_second is None:
        for letter, value in (("A", difference.first), ("B", difference.second)):
            yield from paragraph(value_text(value), f"{INDENT}  {letter}: ", DEEPER + " ")
        return
    if not only_first and not only_second:
        yield from paragraph(_("the same entries in a different order, or with duplicates"), DEEPER, DEEPER)
    for text, entries in ((_("only in A: {entry}"), only_first), (_("only in B: {entry}"), only_second)):
        for entry in entries:
            yield from paragraph(text.format(entry=entry[:SHOWN]), INDENT + "  ", DEEPER + "  ")


def value_text(value: Value) -> str:
    """A value as text; at most SHOWN characters."""
    if value is None or value == ():
        return _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return (", ".join(value) if isinstance(value, tuple) else str(value) or '""')[:SHOWN]


def _uncompared_lines(uncompared: Sequence[Uncompared]) -> Iterator[str]:
    if not uncompared:
        return
    yield ""
    yield _("could not be compared:")
    for gap in uncompared:
        place = f"{_section_title(gap.section)}: {gap.fact}" if gap.fact else _section_title(gap.section)
        yield from paragraph(f"{place} ({'AB'[gap.which - 1]}: {gap.reason})", INDENT, INDENT + INDENT)


def _own_lines(own: Sequence[tuple[str, str]]) -> Iterator[str]:
    if not own:
        return
    # Variables of a job first: the others are whatever else is set in the shell.
    names = sorted((fact for _section, fact in own), key=lambda name: not helps_support(name))
    more = ["..."] if len(names) > OWN else []
    yield ""
    text = _("not compared: each node or shell has its own value, or the value is hidden ({count}): {names}")
    text = text.format(count=len(names), names=", ".join(names[:OWN] + more))
    yield from paragraph(text, "", INDENT)


def diff_object(
    names: tuple[str, str], sides: tuple[Snapshot, Snapshot], comparison: SnapshotComparison
) -> dict[str, Any]:
    """The npudoctor.diff/1 document as plain data."""
    status = comparison.exit_code
    return {
        "schema": SCHEMA,
        "version": __version__,
        "verdict": _VERDICTS[status],
        "exit_code": status,
        "changed": False,
        "failed": status != 0,
        "msg": diff_line(comparison),
        "sides": [
            {"file": name, "node": side.node or None, "started": side.started or None,
             "kind": "snapshot" if side.whole else "report"}
            for name, side in zip(names, sides)
        ],
        "counts": {
            "different": len(comparison.differences),
            "alike": comparison.alike,
            "uncompared": len(comparison.uncompared),
            "own": len(comparison.own),
        },
        "differences": [
            {"section": row.section, "fact": row.fact, "kind": row.kind, "values": [row.first, row.second]}
            for row in comparison.differences
        ],
        "uncompared": [
            {"section": row.section, "fact": row.fact or None, "side": row.which, "reason": row.reason,
             "decides": row.decides}
            for row in comparison.uncompared
        ],
        "own": [{"section": section, "fact": fact} for section, fact in comparison.own],
    }  # fmt: skip
