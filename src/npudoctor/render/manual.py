"""The manual page of one check."""

from __future__ import annotations

import inspect

from npudoctor.checking.check import Check
from npudoctor.core.messages import _
from npudoctor.render.printable import printable


def manual_text(check: Check) -> str:
    """Identity, codes and docstring of a check."""
    lines = [f"{check.id}: {_(check.title)}", ""]
    lines.append(_("group: {group}").format(group=check.group))
    lines.append(_("scope: {scope}").format(scope=check.scope.value))
    if check.tags:
        lines.append(_("tags: {tags}").format(tags=", ".join(check.tags)))
    lines += ["", _("Codes:")]
    width = max(len(code) for code in check.codes)
    lines += [f"  {code:{width}}  {severity.name.lower()}" for code, severity in check.codes.items()]
    body = inspect.cleandoc(check.manual).split("\n")[1:]
    return "\n".join(printable(line) for line in [*lines, *body]).rstrip() + "\n"
