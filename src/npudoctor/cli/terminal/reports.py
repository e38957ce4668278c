"""Brings what a command found to where it was asked for, as text or as JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.cli.terminal import output
from npudoctor.core.model import Report

if TYPE_CHECKING:
    from npudoctor.render.style import Style


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

        return report_text(report, verbose=verbose, quiet=quiet, style=style_for(target), notes=notes)

    deliver(format, document, text, target)


def style_for(target: Optional[str]) -> Style:
    """How a result looks at its place, a file or standard output, and how wide its lines may be."""
    return style_at(None if target is not None else output.result_descriptor())


def style_at(descriptor: Optional[int]) -> Style:
    """The same for what is written to a descriptor; None for a file."""
    from npudoctor.render.columns import WIDTH, set_room
    from npudoctor.render.style import PLAIN, Style

    shown = descriptor is not None and os.isatty(descriptor)
    set_room(output.columns(os.environ, descriptor if shown else None) or WIDTH)
    if not shown or os.environ.get("NO_COLOR") or (os.environ.get("TERM") or "dumb") == "dumb":
        return PLAIN
    return Style(True, output.shows_symbols(os.environ))
