"""What typer and our own code refuse, as an exit status and one clear line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any, Optional

import typer

from npudoctor.config import Refused, suggestion
from npudoctor.messages import _

# typer carries its own click from 0.26 on: what a usage error is, only typer can tell.
_CLICK_ERROR: Any = typer.BadParameter.__mro__[2]


def refusal(error: Exception) -> tuple[int, Optional[str]]:
    """The exit status of an ending that is an exception, and the line that says why."""
    if isinstance(error, typer.Exit):
        return error.exit_code, None
    if isinstance(error, typer.Abort):
        return 130, None
    if isinstance(error, Refused):
        return 64, str(error)
    if isinstance(error, _CLICK_ERROR):
        return 64, _usage(error)
    traceback.print_exception(type(error), error, error.__traceback__)
    text = _("this is a bug in npudoctor: {error}")
    return 70, text.format(error=f"{type(error).__name__}: {error}")


def _usage(error: Any) -> str:
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        near = suggestion(option, set(_options(error.ctx)))
        return _("no such option: {option}{suggestion}").format(option=option, suggestion=near)
    return " ".join(str(error.format_message()).split())


def _options(context: Any) -> Iterator[str]:
    for parameter in context.command.get_params(context) if context else ():
        yield from (name for name in parameter.opts if name.startswith("-"))
