"""`npudoctor check`: check this node; the exit code is the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller

EXPORTS = ("junit", "prometheus", "nagios", "npd")
FORMATS = ("text", "json", *EXPORTS)


def check(
    caller: Caller,
    names: o.Names = None,
    format: Annotated[
        o.Text,
        o.value("--format", "|".join(FORMATS), _("Output format, for people or for programs; default text.")),
    ] = None,
    output: o.Output = None,
    scope: o.Scope = None,
    expect: o.Expect = None,
    profile: o.Profile = None,
    ignore: o.Ignore = None,
    fail_on: o.FailOn = None,
    deadline: o.Deadline = None,
    timeout: o.Timeout = None,
    python: o.Python = None,
    root: o.Root = None,
    env_of: o.EnvOf = None,
    as_user: o.AsUser = None,
    source: o.Source = None,
    peers: o.Peers = None,
    wait: o.Wait = None,
    user: o.User = None,
    job: o.Job = None,
    like: o.Like = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
    verbose: o.Verbose = 0,
    quiet: o.Quiet = False,
) -> int:
    """Judge this node and deliver the report; the exit status is the verdict."""
    from npudoctor.cli.arguments.paths import infer_format, resolve_output
    from npudoctor.cli.config import UsageError, not_one_of
    from npudoctor.cli.session import open_session
    from npudoctor.cli.terminal.reports import deliver_report
    from npudoctor.host.fs.files import Files
    from npudoctor.runner import runner

    if verbose and quiet:
        raise UsageError(_("-v and -q cannot be used together"))
    chosen = infer_format(format, output)
    if chosen in EXPORTS:
        return _export_report(chosen, caller)
    if chosen not in (None, "text", "json"):
        raise UsageError("--format: " + not_one_of(chosen, FORMATS))
    with open_session({**caller.parameters, "format": chosen}, caller) as session:
        target = resolve_output(output, Files(session.host.disk))
        settings = session.settings(names or ())
        report = runner.run(session.loaded, session.host, settings, session.until)
        subjects = {}
        if verbose:  # what each check examines is read from its manual, which takes time
            from npudoctor.render.listing import subject_text

            subjects = {check.id: subject_text(check) for check in session.loaded.checks}
        deliver_report(
            report,
            session.config["format"],
            target,
            verbose=verbose,
            quiet=quiet,
            notes=bool(settings.select),
            subjects=subjects,
        )
    return report.exit_code


def _export_report(format: str, caller: Caller) -> int:
    """Deliver the report in a format of another program, which may define the exit code, too."""
    from npudoctor.cli.arguments.paths import resolve_output
    from npudoctor.cli.config import UsageError
    from npudoctor.cli.session import open_session
    from npudoctor.cli.terminal.exported import deliver_export, report_nagios_error
    from npudoctor.host.fs.files import Files
    from npudoctor.runner import runner

    flags = caller.parameters
    try:
        # Programs get English unless --lang says otherwise, as with JSON.
        with open_session({**flags, "format": "json"}, caller) as session:
            target = resolve_output(flags["output"], Files(session.host.disk))
            settings = session.settings(flags["names"] or ())
            report = runner.run(session.loaded, session.host, settings, session.until)
            return deliver_export(report, format, target)
    except UsageError as error:
        if format != "nagios":
            raise
        return report_nagios_error(str(error))
