"""The check before a job, made in a process of its own: what `run` is to do, as plain data."""

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


def preflight(
    flags: Mapping[str, Any], caller: Caller, command: Sequence[str], verbose: int, pid: int
) -> dict[str, Any]:
    """The answer for the job that the process `pid` will start; or why the options are refused."""
    python = find_job_python(command, caller.variables)
    job_flags = {
        **flags,
        "python": flags.get("python") or python.path,
        "first_folder": python.first_folder,
        "job_variables": sorted(python.adapt({}).items()),
        "profile": "deep" if flags.get("deep") else flags.get("profile"),
        "scope": flags.get("scope") or "job",
        "format": "text",
        "own_python": False,  # a job starts the Python that PATH names, whatever ours has
    }
    try:
        with open_session(job_flags, caller) as session:
            budget = session.until - time.monotonic()

            def ask() -> Preflight:  # a rank that waited in vain for another's answer still has all its time
                return _check(session, caller, python, verbose, time.monotonic() + budget)

            sharing = _start_sharing(session, job_flags, caller, pid)
            answer = ask() if sharing is None else sharing.get_answer(ask, session.deadline)
            if answer.borrowed and not answer.is_for(caller.variables):
                answer = ask()
        return {"answer": answer.as_json(), "language": messages.language()}
    except UsageError as refused:
        return {"refused": str(refused)}


def _check(session: Session, caller: Caller, python: JobPython, verbose: int, until: float) -> Preflight:
    """Ask the checks about the job as it will be started: with the variables that it still lacks."""
    from npudoctor.runner import runner

    host, changes, notes = _with_environment(session.host)
    examined = python.adapt(host.variables)
    if (
        examined != host.variables
    ):  # what a wrapper sets and what Python ignores are the job's, not ours to change
        host = host.with_variables(examined)
    report = runner.run(session.loaded, host, session.settings(), until)
    before = caller.variables
    after = session.host.variables
    all_changes: dict[str, Optional[str]] = {  # first what --source sets and unsets
        **{name: None for name in before if name not in after},
        **{name: value for name, value in after.items() if before.get(name) != value},
        **changes,
    }
    return Preflight(
        verdict=report.verdict.value,
        line=report.msg,
        text=_text(report, verbose),
        notes=notes,
        changes=all_changes,
        before={name: before.get(name) for name in all_changes},
    )


def _with_environment(host: Host) -> tuple[Host, Mapping[str, Optional[str]], tuple[str, ...]]:
    from npudoctor.environment import required_changes

    try:
        required = required_changes(host)
    except CannotTell as error:
        return host, {}, (error.reason,)
    if not required.changes:
        return host, {}, required.notes
    both = {**host.variables, **required.changes}
    return (
        host.with_variables({name: value for name, value in both.items() if value is not None}),
        required.changes,
        required.notes,
    )


def _text(report: Report, verbose: int) -> str:
    """What is printed when the job is not started."""
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
    """How this rank shares with the others of its node; None for a job that is alone."""
    host = session.host
    launch = find_launch(host, caller.variables, pid)
    rendezvous = Rendezvous.open_first(host.identity.euid, caller.variables) if launch else None
    if launch is None or rendezvous is None:
        return None
    # The command may name the rank; what of it decides is its interpreter, one of the options by now.
    options = sorted((name, str(value)) for name, value in flags.items() if name != "command")
    folder = ""
    with suppress(OSError):  # it was removed, which a check says
        folder = os.getcwd()
    alike = fingerprint(caller.variables, folder, messages.language(), options)
    place = f"{host.system.boot_id()} {host.system.namespace('pid')}"
    return AnswerSharing(rendezvous, launch, alike, host.processes, pid, place)
