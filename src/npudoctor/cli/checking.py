"""The work of `npudoctor check`, whether plain.py or typer has read its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.cli.arguments.paths import writable
from npudoctor.cli.caller import Caller
from npudoctor.cli.config import UsageError
from npudoctor.cli.session import open_session
from npudoctor.cli.terminal.reports import deliver_report
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files
from npudoctor.runner import runner


def check_node(flags: Mapping[str, Any], caller: Caller) -> int:
    """Judge this node and deliver the report; the exit status is the verdict."""
    verbose, quiet = bool(flags["verbose"]), bool(flags["quiet"])
    if verbose and quiet:
        raise UsageError(_("-v and -q cannot be used together"))
    with open_session(flags, caller) as session:
        target = writable(flags["output"], Files(session.host.disk))
        settings = session.settings(flags["names"] or ())
        report = runner.run(session.loaded, session.host, settings, session.until)
        form, named = session.config["format"], bool(flags["names"])
        deliver_report(report, form, target, verbose=verbose, quiet=quiet, advice=named)
    return report.exit_code
