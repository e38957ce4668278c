"""Renders a finished report and brings it to where it was asked for."""

from __future__ import annotations

import os
from typing import Optional

from npudoctor.cli.terminal import output
from npudoctor.core.model import Report


def deliver(report: Report, format: str, target: Optional[str], *, verbose: bool, quiet: bool) -> None:
    """Write the report to standard output, or to a file as a whole."""
    if format == "json":
        from npudoctor.render.report_json import report_json

        text, encoding = report_json(report), "utf-8"
    else:
        from npudoctor.render.text import report_text

        text = report_text(report, verbose=verbose, quiet=quiet, colour=target is None and _colour())
        encoding = output.terminal_encoding() if target is None else "utf-8"
    if target is None:
        output.emit(text, encoding)
    else:
        output.save(target, text)


def _colour() -> bool:
    return output.is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
