"""The checks for commands that only describe them: nothing is asked."""

from __future__ import annotations

from typing import Optional

from npudoctor.cli.arguments.values import flag_value
from npudoctor.cli.caller import Caller
from npudoctor.cli.session import speak
from npudoctor.cli.terminal import output
from npudoctor.registry import registry
from npudoctor.registry.collector import LoadedChecks


def loaded_checks(format: Optional[str], lang: Optional[str], caller: Caller) -> tuple[LoadedChecks, str]:
    """All checks, and the format that was asked for."""
    wanted = wanted_format(format, lang, caller)
    return registry.load_all(caller.variables), wanted


def wanted_format(format: Optional[str], lang: Optional[str], caller: Caller) -> str:
    """The format that was asked for; from here on it is spoken as that wants it."""
    wanted: str = flag_value("format", format)
    flag_value("lang", lang)
    output.redirect_stdout()
    speak(wanted, None, caller)
    return wanted
