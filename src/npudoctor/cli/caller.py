"""Who called and with what, how a command is called, and how the process ends."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Callable, NoReturn, Optional

from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class Caller:
    """Who called: the variables as they were, the language asked for by --lang, and what the command was
    called with, by parameter."""

    variables: Mapping[str, str]
    language: Optional[str]
    parameters: Mapping[str, Any] = MappingProxyType({})


def call(function: Callable[..., int], parameters: Mapping[str, Any], caller: Caller) -> int:
    """Call a command with what its line says, whether typer has read that or the table; --color, which all
    commands take, is heeded here."""
    own = {name: value for name, value in parameters.items() if name != "color"}
    if parameters["color"] is not None:
        from npudoctor.cli.terminal.reports import choose_color

        choose_color(parameters["color"])
    return function(Caller(caller.variables, caller.language, own), **own)


def exit_now(status: int) -> NoReturn:
    """End at once: a thread that was left behind would keep the process. All output was written before."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.flush()
    os._exit(status)
