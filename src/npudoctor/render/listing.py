"""Renders the list of checks (as text and as npudoctor.list/1), and the manual of one check."""

from __future__ import annotations

import re
from typing import Any

from npudoctor.checking.check import Check
from npudoctor.core import messages
from npudoctor.core.docstrings import dedent_docstring
from npudoctor.core.messages import _
from npudoctor.registry.collector import LoadedChecks
from npudoctor.render.printable import printable
from npudoctor.render.style import severity_words

SCHEMA = "npudoctor.list/1"


def listing_object(loaded: LoadedChecks) -> dict[str, Any]:
    """The npudoctor.list/1 document as plain data."""
    checks = [
        {
            "id": check.id,
            "group": check.group,
            "title": _(check.title),
            "tags": list(check.tags),
            "scope": check.scope.value,
            "codes": {code: severity.name.lower() for code, severity in check.codes.items()},
            "advisory": check.advisory,
            "profile": "quick" if check.quick or check.always else "full",
            "origin": check.origin,
        }
        for check in loaded.checks
    ]
    broken = [{"id": row.check, "group": row.group, "reason": row.reason} for row in loaded.broken]
    return {"schema": SCHEMA, "checks": checks, "broken": broken}


def listing_text(loaded: LoadedChecks) -> str:
    """Group, id and title of every check, sorted; also those that could not be loaded."""
    rows = [(check.group, check.id, _(check.title)) for check in loaded.checks]
    rows += [(row.group, row.check, f"{row.title}: {row.reason}") for row in loaded.broken]
    rows = [(printable(group), printable(name), printable(title)) for group, name, title in sorted(rows)]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "".join(f"{group:{widths[0]}}  {name:{widths[1]}}  {title}\n" for group, name, title in rows)


def manual_text(check: Check) -> str:
    """The manual of a check as text: id, group, codes, and its docstring."""
    lines = [f"{check.id}: {_(check.title)}", ""]
    lines.append(_("group: {group}", group=check.group))
    lines.append(_("scope: {scope}", scope=check.scope.value))
    if check.tags:
        lines.append(_("tags: {tags}", tags=", ".join(check.tags)))
    lines += ["", _("Codes:")]
    width = max(len(code) for code in check.codes)
    words = severity_words()
    lines += [f"  {code:{width}}  {words[severity]}" for code, severity in check.codes.items()]
    lines += ["", *translated_manual(check).split("\n")]
    return "\n".join(printable(line) for line in lines).rstrip() + "\n"


def subject_text(check: Check) -> str:
    """What a check examines: the first sentence of its manual, in the current language; "" without one."""
    sections = translated_manual(check).split("\n\n")
    heading = next((n for n, block in enumerate(sections) if block.startswith("## ")), len(sections))
    first = " ".join("".join(sections[heading + 1 : heading + 2]).split())
    if first.startswith(("-", "#")):
        return ""
    # Chinese sentences are not followed by a blank.
    sentence = re.split(r"(?<=[.:;])\s|(?<=[。：；])", first, maxsplit=1)[0]
    return sentence.rstrip(" .:;。：；").replace("`", "")


def translated_manual(check: Check) -> str:
    """The docstring of a check below its title: Markdown, in the current language."""
    body = dedent_docstring(check.manual).partition("\n")[2].strip("\n")
    return "\n\n".join(messages.manual(block) for block in body.split("\n\n"))
