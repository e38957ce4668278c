"""Brings what a command found to where it was asked for, as text or as JSON."""

from __future__ import annotations

import os
from typing import Callable, Optional

from npudoctor.cli.terminal import output
from npudoctor.core.model import Report


def deliver(
    format: str, document: Callable[[], object], text: Callable[[], str], target: Optional[str] = None
) -> None:
    """Write the JSON document or the text, whichever is asked for; to standard output, or whole to a file."""
    if format == "json":
        from npudoctor.render.json_text import json_text

        content, encoding = json_text(document()), "utf-8"
    else:
        content, encoding = text(), output.terminal_encoding()
    if target is None:
        output.emit(content, encoding)
    else:
        output.save(target, content)


def deliver_report(
    report: Report, format: str, target: Optional[str], *, verbose: bool, quiet: bool, notes: bool = False
) -> None:
    """Write the report of `check`; `notes` as in report_text."""

    def document() -> object:
        from npudoctor.render.report_json import report_object

        return report_object(report)

    def text() -> str:
        from npudoctor.render.text import report_text

        colour = target is None and has_colour()
        return report_text(report, verbose=verbose, quiet=quiet, colour=colour, notes=notes)

    deliver(format, document, text, target)


def has_colour() -> bool:
    """Whether standard output is a terminal that wants colours."""
    return output.is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
