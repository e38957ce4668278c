"""The work of `npudoctor check`, whoever has read its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor import runner
from npudoctor.cli.main import Caller
from npudoctor.cli.paths import writable
from npudoctor.cli.reports import deliver
from npudoctor.cli.session import opened
from npudoctor.config import Refused
from npudoctor.host.files import Files
from npudoctor.messages import _


def judge(flags: Mapping[str, Any], caller: Caller) -> int:
    """Judge this node and deliver the report; the exit status is the verdict."""
    verbose, quiet = bool(flags["verbose"]), bool(flags["quiet"])
    if verbose and quiet:
        raise Refused(_("-v and -q cannot be used together"))
    with opened(flags, caller) as session:
        target = writable(flags["output"], Files(session.host.disk))
        settings = session.settings(flags["names"] or ())
        report = runner.run(session.loaded, session.host, settings, session.until)
        deliver(report, session.config["format"], target, verbose=verbose, quiet=quiet)
    return report.exit_code
