"""Runs the check before a job, in a process of its own; the result is plain data for `run`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Optional

from npudoctor.cli.caller import Caller
from npudoctor.cli.config import UsageError
from npudoctor.cli.session import Session, open_session
from npudoctor.core import messages
from npudoctor.core.model import Report, Verdict
from npudoctor.host import CannotTell, Host
from npudoctor.launch.job_python import JobPython, find_job_python
from npudoctor.launch.launch import find_launch, fingerprint
from npudoctor.launch.preflight import Preflight
from npudoctor.launch.rendezvous import Rendezvous
from npudoctor.launch.sharing import AnswerSharing


def run_preflight(
    flags: Mapping[str, Any], caller: Caller, command: Sequence[str], verbose: int, pid: int
) -> dict[str, Any]:
    """Check the job that the process `pid` will start. Returns {"answer": ...} with the fields of a
    Preflight, or {"refused": why} for invalid options."""
    python = find_job_python(command, caller.variables)
    job_flags = {
        **flags,
        "python": flags.get("python") or python.path,
        "first_folder": python.first_folder,
        "job_variables": sorted(python.adapt({}).items()),
        "profile": "deep" if flags.get("deep") else flags.get("profile"),
        "scope": flags.get("scope") or "job",
        "format": "text",
        "own_python": False,  # the job starts the Python on PATH, not the one that runs npudoctor
    }
    try:
        with open_session(job_flags, caller) as session:
            budget = session.until - time.monotonic()

            # The time starts with the call: a rank that waited in vain for another's answer has all of it.
            def ask() -> Preflight:
                return _check_job(session, caller, python, verbose, time.monotonic() + budget)

            sharing = _start_sharing(session, job_flags, caller, pid)
            answer = ask() if sharing is None else sharing.get_answer(ask, session.deadline)
            if answer.borrowed and not answer.is_for(caller.variables):
                answer = ask()
        return {"answer": answer.as_json(), "language": messages.language()}
    except UsageError as refused:
        return {"refused": str(refused)}


def _check_job(session: Session, caller: Caller, python: JobPython, verbose: int, until: float) -> Preflight:
    """Run the checks on the environment that the job will have, including the variables that are added."""
    from npudoctor.runner import runner

    host, changes, notes = _apply_environment(session.host)
    examined = python.adapt(host.variables)
    # Variables that a wrapper script sets and those that Python ignores: they are examined as the job has
    # them, and are not part of the changes.
    if examined != host.variables:
        host = host.with_variables(examined)
    report = runner.run(session.loaded, host, session.settings(), until)
    before = caller.variables
    after = session.host.variables
    all_changes: dict[str, Optional[str]] = {  # those of --source first, which the others override
        **{name: None for name in before if name not in after},
        **{name: value for name, value in after.items() if before.get(name) != value},
        **changes,
    }
    return Preflight(
        verdict=report.verdict.value,
        line=report.msg,
        text=_refusal_text(report, verbose),
        notes=notes,
        changes=all_changes,
        before={name: before.get(name) for name in all_changes},
    )


def _apply_environment(host: Host) -> tuple[Host, Mapping[str, Optional[str]], tuple[str, ...]]:
    from npudoctor.environment import required_changes

    try:
        required = required_changes(host)
    except CannotTell as error:
        return host, {}, (error.reason,)
    if not required.changes:
        return host, {}, required.notes
    all_variables = {**host.variables, **required.changes}
    return (
        host.with_variables({name: value for name, value in all_variables.items() if value is not None}),
        required.changes,
        required.notes,
    )


def _refusal_text(report: Report, verbose: int) -> str:
    """The text to print when the job is not started; "" when there is nothing to print."""
    if verbose:
        from npudoctor.render.text import report_text

        return report_text(report, verbose=verbose)
    if report.verdict is not Verdict.NOT_READY:
        return ""
    from npudoctor.render.text import decisive_text

    return decisive_text(report)


def _start_sharing(
    session: Session, flags: Mapping[str, Any], caller: Caller, pid: int
) -> Optional[AnswerSharing]:
    """The sharing of the answer with the other ranks on this node; None when this is the only rank."""
    host = session.host
    launch = find_launch(host, caller.variables, pid)
    rendezvous = Rendezvous.open_first(host.identity.euid, caller.variables) if launch else None
    if launch is None or rendezvous is None:
        return None
    # Without the command, which may contain the rank. Of the command only its interpreter matters, which is
    # one of the options.
    options = sorted((name, str(value)) for name, value in flags.items() if name != "command")
    folder = ""
    with suppress(OSError):  # the working directory was removed, which a check reports
        folder = os.getcwd()
    job_fingerprint = fingerprint(caller.variables, folder, messages.language(), options)
    place = f"{host.system.boot_id()} {host.system.namespace('pid')}"
    return AnswerSharing(rendezvous, launch, job_fingerprint, host.processes, pid, place)
