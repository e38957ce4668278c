"""Brings what a command found to where it was asked for, as text or as JSON."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.cli.terminal import output
from npudoctor.core.model import Report

if TYPE_CHECKING:
    from npudoctor.render.style import Style

COLORS = ("auto", "always", "never")
_FORCING = ("CLICOLOR_FORCE", "FORCE_COLOR")
_color = "auto"  # what --color says


def deliver(
    format: str, document: Callable[[], object], text: Callable[[], str], target: Optional[str] = None
) -> None:
    """Write the JSON document or the text, whichever is asked for; to standard output, or whole to a file."""
    if format == "json":
        from npudoctor.render.json_text import json_text

        _put(json_text(document()), "utf-8", target)
    else:
        _put(text(), output.terminal_encoding(), target)


def deliver_report(
    report: Report,
    format: str,
    target: Optional[str],
    *,
    verbose: int,
    quiet: bool,
    notes: bool = False,
    subjects: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the report of `check`; `verbose`, `notes` and `subjects` as in report_text."""

    if format == "json":
        from npudoctor.render.report_json import report_json

        _put(report_json(report), "utf-8", target)
        return
    from npudoctor.render.text import report_text

    text = report_text(
        report, verbose=verbose, quiet=quiet, style=style_for(target), notes=notes, subjects=subjects
    )
    _put(text, output.terminal_encoding(), target)


def _put(content: str, encoding: str, target: Optional[str]) -> None:
    if target is None:
        output.emit(content, encoding)
    else:
        output.save(target, content)


def style_for(target: Optional[str]) -> Style:
    """How a result looks at its place, a file or standard output, and how wide its lines may be."""
    return style_at(None if target is not None else output.result_descriptor())


def choose_color(value: str) -> None:
    """Heed --color from now on; UsageError for what is no choice."""
    global _color
    if value not in COLORS:
        from npudoctor.cli.config import UsageError, not_one_of

        raise UsageError("--color: " + not_one_of(value, COLORS))
    _color = value


def color_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """What decides about colour in these variables and on our command line, for another npudoctor."""
    chosen = {
        name: variables[name] for name in (*_FORCING, "NO_COLOR", "CLICOLOR", "TERM") if name in variables
    }
    if _color == "always":
        chosen = {**chosen, "NO_COLOR": "", "CLICOLOR_FORCE": "1"}
    elif _color == "never":
        chosen = {**chosen, "NO_COLOR": "1"}
    return chosen


def wants_color(variables: Mapping[str, str], terminal: bool) -> bool:
    """Whether words are coloured: as --color says, else NO_COLOR wins (no-color.org), then what forces it,
    then a terminal that can show it."""
    if _color != "auto":
        return _color == "always"
    if variables.get("NO_COLOR"):
        return False
    if any(variables.get(name, "") not in ("", "0") for name in _FORCING):
        return True
    return terminal and variables.get("CLICOLOR") != "0" and (variables.get("TERM") or "dumb") != "dumb"


def style_at(descriptor: Optional[int]) -> Style:
    """The same for what is written to a descriptor; None for a file."""
    from npudoctor.render.columns import WIDTH, set_room
    from npudoctor.render.style import PLAIN, Style

    shown = descriptor is not None and os.isatty(descriptor)
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and 0 < len(columns) < 5 and int(columns):
        set_room(int(columns))
    else:
        size = None
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(descriptor).columns if shown and descriptor is not None else None
        set_room(size or WIDTH)
    if descriptor is None and _color != "always":  # no variable was meant for a file
        return PLAIN
    if not wants_color(os.environ, shown):
        return PLAIN
    return Style(True, output.shows_symbols(os.environ))
