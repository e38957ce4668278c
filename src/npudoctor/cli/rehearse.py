"""`npudoctor rehearse`: try npudoctor on a simulated faulty machine; the real one is not changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Optional

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller
    from npudoctor.rehearsal.fault import Fault

# The exit code of npudoctor for "undetermined": nothing was shown to be right or wrong.
CANNOT_REHEARSE = 2


def rehearse(
    caller: Caller,
    name: Annotated[
        o.Text, o.argument("[FAULT]", _("The fault to rehearse: a name from --list, or a code."))
    ] = None,
    options: Annotated[
        o.Texts, o.argument("[-- OPTIONS OF check]...", _("Options passed to both runs of check."))
    ] = None,
    listing: Annotated[bool, o.switch("--list", help=_("List the faults that can be rehearsed."))] = False,
    format: o.Format = None,
    lang: o.Lang = None,
) -> int:
    """Build a faulty machine, check it, fix it, and check it again."""
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.config import UsageError

    config = load_settings({"format": format, "lang": lang}, caller)
    if listing:
        return _list_faults(config["format"])
    if config["format"] != "text":
        raise UsageError(_("--format works only with --list; for check, put it after --"))
    if any(word.startswith("--o") for word in options or ()):
        raise UsageError(_("--output would write inside the sandbox: redirect standard output instead"))
    return _rehearse_fault(_find_fault(name), options or ())


def _find_fault(name: Optional[str]) -> Fault:
    from npudoctor.cli.config import UsageError, suggestion
    from npudoctor.rehearsal.faults import FAULTS

    if name is None:
        raise UsageError(_("specify a fault; to list them: npudoctor rehearse --list"))
    for fault in FAULTS.values():
        if name in (fault.name, fault.code):
            return fault
    # A check that is new has one fault, named by its symptom: its author knows the id.
    for fault in FAULTS.values():
        if name == fault.code.partition(".")[0]:
            return fault
    names = {names for fault in FAULTS.values() for names in (fault.name, fault.code)}
    raise UsageError(_("no such fault: {name}{suggestion}", name=name, suggestion=suggestion(name, names)))


def _rehearse_fault(fault: Fault, options: Sequence[str]) -> int:
    from npudoctor.cli.terminal import output
    from npudoctor.cli.terminal.reports import style_at
    from npudoctor.rehearsal.namespaces import CannotRehearse, list_kinds
    from npudoctor.rehearsal.play import RehearsalOutput
    from npudoctor.rehearsal.play import rehearse as play
    from npudoctor.render.columns import paragraph

    def say(line: str) -> None:
        lines = paragraph(line, "npudoctor rehearse: ", "  ")
        output.write_stderr("".join(f"{line}\n" for line in lines))

    def report(text: str) -> None:
        output.emit(text, output.terminal_encoding())

    style_at(2)  # sets the width of the lines
    kind = _("real fault") if fault.real else _("simulated files and tools")
    say(f"{fault.name}: {fault.title}")
    say(
        _(
            "{kind} in private namespaces ({names}); this machine is not changed",
            kind=kind,
            names=list_kinds(),
        )
    )
    try:
        return play(fault, options, RehearsalOutput(say, report, _terminal_variables()))
    except CannotRehearse as error:
        output.complain(_("cannot rehearse {fault}: {why}", fault=fault.name, why=error))
        return CANNOT_REHEARSE


def _terminal_variables() -> Optional[dict[str, str]]:
    """The variables that tell the npudoctor in the sandbox about this terminal; None when it is none."""
    from npudoctor.cli.terminal import output
    from npudoctor.cli.terminal.reports import color_variables

    if not output.is_terminal() or output.terminal_encoding().lower() not in ("utf-8", "utf8"):
        return None
    return color_variables(os.environ)


def _list_faults(format: str) -> int:
    from npudoctor.cli.terminal.reports import deliver
    from npudoctor.rehearsal.faults import FAULTS
    from npudoctor.render.rehearsals import rehearsals_object, rehearsals_text

    faults = list(FAULTS.values())
    deliver(format, lambda: rehearsals_object(faults), lambda: rehearsals_text(faults))
    return 0
