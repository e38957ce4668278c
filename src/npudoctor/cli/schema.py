"""`npudoctor schema`: the JSON Schema of a document that npudoctor writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller

DOCUMENTS = ("report", "fix", "explain", "history", "snapshot", "diff", "fleet", "fleet-fix", "pairs")


def schema(
    caller: Caller,
    document: Annotated[
        str, o.argument(f"[{'|'.join(DOCUMENTS)}]", _("The document to print; default report."))
    ] = "report",
    lang: o.Lang = None,
) -> int:
    """Print the JSON Schema of a document."""
    from npudoctor import render
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.config import UsageError, suggestion
    from npudoctor.cli.terminal import output

    load_settings({"lang": lang}, caller)
    documents = set(DOCUMENTS)
    if document not in documents:
        raise UsageError(
            _(
                "no such document: {name}{suggestion}",
                name=document,
                suggestion=suggestion(document, documents),
            )
        )
    # Not by importlib.resources, which imports zipfile, pathlib and random.
    path = os.path.join(os.path.dirname(render.__file__), "schemas", f"{document}-1.json")
    with open(path, encoding="utf-8") as file:
        output.emit(file.read())
    return 0
