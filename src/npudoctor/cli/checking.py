"""The work of `npudoctor check`, whether plain.py or typer has read its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.cli.arguments.paths import format_for, writable
from npudoctor.cli.caller import Caller
from npudoctor.cli.config import UsageError, not_one_of
from npudoctor.cli.session import open_session
from npudoctor.cli.terminal.reports import deliver_report
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner import runner

EXPORTS = ("junit", "prometheus", "nagios", "npd")


def check_node(flags: Mapping[str, Any], caller: Caller) -> int:
    """Judge this node and deliver the report; the exit status is the verdict."""
    verbose, quiet = int(flags["verbose"]), bool(flags["quiet"])
    if verbose and quiet:
        raise UsageError(_("-v and -q cannot be used together"))
    flags = {**flags, "format": format_for(flags["format"], flags["output"])}
    if flags["format"] in EXPORTS:
        return _export(flags, caller)
    if flags["format"] not in (None, "text", "json"):
        raise UsageError("--format: " + not_one_of(flags["format"], ("text", "json", *EXPORTS)))
    with open_session(flags, caller) as session:
        target = writable(flags["output"], Files(session.host.disk))
        settings = session.settings(flags["names"] or ())
        report = runner.run(session.loaded, session.host, settings, session.until)
        notes = bool(settings.select)
        subjects = _subjects(session.loaded) if verbose else {}
        deliver_report(
            report,
            session.config["format"],
            target,
            verbose=verbose,
            quiet=quiet,
            notes=notes,
            subjects=subjects,
        )
    return report.exit_code


def _subjects(loaded: LoadedChecks) -> dict[str, str]:
    """What each check looks at: read from the manuals, and so only for who asks."""
    from npudoctor.render.listing import subject

    return {check.id: subject(check) for check in loaded.checks}


def _export(flags: Mapping[str, Any], caller: Caller) -> int:
    """In a form that other programs define, which may define the exit status too."""
    from npudoctor.cli.terminal.exported import deliver_export, refuse

    try:
        # Programs get English unless told otherwise, as in JSON.
        with open_session({**flags, "format": "json"}, caller) as session:
            target = writable(flags["output"], Files(session.host.disk))
            settings = session.settings(flags["names"] or ())
            report = runner.run(session.loaded, session.host, settings, session.until)
            return deliver_export(report, flags["format"], target)
    except UsageError as error:
        if flags["format"] != "nagios":
            raise
        return refuse(str(error))
