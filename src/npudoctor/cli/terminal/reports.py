"""Writes the result of a command as text or as JSON, to standard output or to a file."""

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
_color = "auto"  # the value of --color


def deliver(
    format: str, document: Callable[[], object], text: Callable[[], str], target: Optional[str] = None
) -> None:
    """Write the JSON document or the text, by `format`; to standard output, or atomically to a file."""
    if format == "json":
        from npudoctor.render.json_text import json_text

        _write_output(json_text(document()), "utf-8", target)
    else:
        _write_output(text(), output.terminal_encoding(), target)


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

        _write_output(report_json(report), "utf-8", target)
        return
    from npudoctor.render.text import report_text

    text = report_text(
        report, verbose=verbose, quiet=quiet, style=style_for(target), notes=notes, subjects=subjects
    )
    _write_output(text, output.terminal_encoding(), target)


def _write_output(content: str, encoding: str, target: Optional[str]) -> None:
    if target is None:
        output.emit(content, encoding)
    else:
        output.save(target, content)


def style_for(target: Optional[str]) -> Style:
    """The style for a result at its place (a file, None: standard output); sets the width of its lines."""
    return style_at(None if target is not None else output.result_descriptor())


def choose_color(value: str) -> None:
    """Set --color; raises UsageError for an invalid value."""
    global _color
    if value not in COLORS:
        from npudoctor.cli.config import UsageError, not_one_of

        raise UsageError("--color: " + not_one_of(value, COLORS))
    _color = value


def color_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide about color, with the effect of our own --color, for another npudoctor."""
    color_settings = {
        name: variables[name] for name in (*_FORCING, "NO_COLOR", "CLICOLOR", "TERM") if name in variables
    }
    if _color == "always":
        color_settings = {**color_settings, "NO_COLOR": "", "CLICOLOR_FORCE": "1"}
    elif _color == "never":
        color_settings = {**color_settings, "NO_COLOR": "1"}
    return color_settings


def wants_color(variables: Mapping[str, str], terminal: bool) -> bool:
    """Whether to use color: by --color, else NO_COLOR (no-color.org), then CLICOLOR_FORCE and FORCE_COLOR,
    then whether this is a terminal that supports it."""
    if _color != "auto":
        return _color == "always"
    if variables.get("NO_COLOR"):
        return False
    if any(variables.get(name, "") not in ("", "0") for name in _FORCING):
        return True
    return terminal and variables.get("CLICOLOR") != "0" and (variables.get("TERM") or "dumb") != "dumb"


def style_at(descriptor: Optional[int]) -> Style:
    """The style for output to a descriptor, None for a file; sets the width of the lines."""
    from npudoctor.render.columns import WIDTH, set_room
    from npudoctor.render.style import PLAIN, Style

    is_terminal = descriptor is not None and os.isatty(descriptor)
    columns = os.environ.get("COLUMNS", "")
    # isascii: isdigit() accepts digits of other scripts, too. Five digits would be no terminal.
    if columns.isascii() and columns.isdigit() and 0 < len(columns) < 5 and int(columns):
        set_room(int(columns))
    else:
        size = None
        # Some terminals have no size, as a serial console: WIDTH then.
        with contextlib.suppress(OSError):
            size = (
                os.get_terminal_size(descriptor).columns if is_terminal and descriptor is not None else None
            )
        set_room(size or WIDTH)
    if descriptor is None and _color != "always":  # FORCE_COLOR is meant for a pipe, not for a saved file
        return PLAIN
    if not wants_color(os.environ, is_terminal):
        return PLAIN
    return Style(True, output.shows_symbols(os.environ))
