"""The caller of a command (variables, language, options), the call itself, and the end of the process."""

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
    """The caller's environment variables, the language of --lang (None when it was not given), and the values
    of the command's parameters by name."""

    variables: Mapping[str, str]
    language: Optional[str]
    parameters: Mapping[str, Any] = MappingProxyType({})


def call_command(function: Callable[..., int], parameters: Mapping[str, Any], caller: Caller) -> int:
    """Call a command with its parameters, parsed by typer or by the table; returns its exit code.

    --color, which all commands accept, is applied here.
    """
    # The functions of the commands have no parameter for it: it is added to each by make_command_function.
    own = {name: value for name, value in parameters.items() if name != "color"}
    if parameters["color"] is not None:
        from npudoctor.cli.terminal.reports import choose_color

        choose_color(parameters["color"])
    return function(Caller(caller.variables, caller.language, own), **own)


def exit_now(status: int) -> NoReturn:
    """Exit without waiting for abandoned threads, which would keep the process. Output must be flushed
    before."""
    # Closed or full: there is nobody left to tell.
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.flush()
    os._exit(status)
