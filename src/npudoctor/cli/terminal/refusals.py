"""Turns exceptions of typer and of npudoctor into an exit code and one line for people."""

from __future__ import annotations

import sys
from typing import Any, Optional

from npudoctor.cli.config import UsageError, is_usage_error, no_such_option
from npudoctor.cli.terminal import output
from npudoctor.core.errors import is_out_of_memory
from npudoctor.core.messages import _
from npudoctor.core.optional import MissingExtra
from npudoctor.core.redact.redact import redact_lines


def explain_refusal(error: Exception) -> tuple[int, Optional[str]]:
    """The exit code for an exception that ended a command, and the line to print (None: nothing)."""
    if isinstance(error, (UsageError, MissingExtra)):
        return 64, str(error)
    typer = sys.modules.get("typer")  # when it was not imported, it raised nothing
    if typer is not None:
        if isinstance(error, typer.Exit):
            return error.exit_code, None
        if isinstance(error, typer.Abort):
            # 128 + SIGINT, as a shell reports Ctrl-C.
            return 130, None
        if is_usage_error(error):
            return 64, _usage_line(error)
    if is_out_of_memory(error):
        return 70, _("out of memory: the limit (ulimit -v, or the container) is too low")
    import traceback  # imported for bugs only: it imports linecache and tokenize

    # Redacted: a message may contain text that was read from a file or a command line.
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    output.write_stderr("".join(redact_lines(lines)))
    return 70, _("this is a bug in npudoctor: {error}", error=f"{type(error).__name__}: {error}")


def _usage_line(error: Any) -> str:
    option = getattr(error, "option_name", None)
    if option is None:
        return " ".join(str(error.format_message()).split())
    # By option of the command that was parsed, whether it is a flag.
    options = {
        name: bool(getattr(parameter, "is_flag", False) or getattr(parameter, "count", False))
        for parameter in (error.ctx.command.get_params(error.ctx) if error.ctx else ())
        for name in parameter.opts
        if name.startswith("-")
    }
    if option in options:
        flag = _("the option {option} takes no value")
        return (flag if options[option] else _("the option {option} needs a value")).format(option=option)
    return no_such_option(option, options)
