"""`npudoctor run`: check, set the environment, start the job; its exit status is the job's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from npudoctor.cli.caller import Caller, exit_now
from npudoctor.cli.config import UsageError
from npudoctor.cli.terminal.output import complain, write_stderr
from npudoctor.core import messages
from npudoctor.core.errors import is_out_of_memory
from npudoctor.core.frozen import replace
from npudoctor.core.messages import _, strerror
from npudoctor.launch.preflight import Preflight, preflight_from_json

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.launch.inherited import InheritedState

FAILED = 125
UNDETERMINED, NOT_READY = "undetermined", "not_ready"


def run(
    caller: Caller,
    command: o.Words = None,
    scope: o.JobScope = None,
    expect: o.Expect = None,
    profile: o.JobProfile = None,
    deep: o.Deep = False,
    ignore: o.Ignore = None,
    fail_on: o.FailOn = None,
    deadline: o.Deadline = None,
    timeout: o.Timeout = None,
    python: o.JobPython = None,
    source: o.JobSource = None,
    peers: o.Peers = None,
    wait: o.Wait = None,
    user: o.User = None,
    job: o.Job = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
    force: o.Force = False,
    verbose: o.Verbose = 0,
    quiet: o.Silent = False,
) -> int:
    """Start a job on a node that was judged right before."""
    if verbose and quiet:
        raise UsageError(_("-v and -q cannot be used together"))
    if not command:
        raise UsageError(_("the command to start is missing: npudoctor run [OPTIONS] [--] COMMAND..."))
    # Only now is it known which words were ours: a --lang among the job's words is the job's.
    caller = replace(caller, language=lang and messages.language_of({"NPUDOCTOR_LANG": lang}))
    messages.activate(caller.language or messages.language_of(caller.variables))
    try:
        return _run(caller.parameters, caller, command)
    except UsageError:
        raise
    except OSError as error:  # such as EAGAIN of fork, at the limit of processes
        complain(_("the job could not be started: {why}", why=strerror(error.errno)))
        return FAILED
    except Exception as error:
        # The job's statuses are its own: a failure of ours is never one of them, nor a traceback.
        complain(_out_of_memory() if is_out_of_memory(error) else _bug(f"{type(error).__name__}: {error}"))
        return FAILED


def _run(flags: Mapping[str, Any], caller: Caller, command: Sequence[str]) -> int:
    from npudoctor.cli.afterwards import JobStart, explain_failure
    from npudoctor.launch.inherited import InheritedState
    from npudoctor.launch.sharing import withdraw_answer

    inherited = InheritedState.capture()
    answer = _answer(flags, caller, command)
    if answer is None:
        return FAILED
    if not _report(answer, flags):
        withdraw_answer(answer)
        return FAILED
    beginning = JobStart.capture()
    try:
        status = _run_job(answer, caller, command, inherited)
    finally:
        withdraw_answer(answer)
    text = None if answer.borrowed else explain_failure(status, beginning, caller.variables)
    if text:
        write_stderr(text)
    return exit_now(status)


def _answer(flags: Mapping[str, Any], caller: Caller, command: Sequence[str]) -> Optional[Preflight]:
    """What the check says; None where it could not be made, and nobody insists."""
    from npudoctor.launch.child import run_in_child

    def work() -> dict[str, Any]:
        from npudoctor.cli.preflight import preflight  # with all that checks need: never loaded in the parent

        return preflight(flags, caller, command, flags["verbose"], os.getppid())

    answer = run_in_child(work) or {}
    messages.activate(answer.get("language", messages.language()))
    if "refused" in answer:
        raise UsageError(answer["refused"])
    if "answer" in answer:
        return preflight_from_json(answer["answer"])
    if "failed" in answer:
        complain(_out_of_memory() if answer["memory"] else _bug(answer["failed"]))
    else:
        complain(_("the check ended without a result"))
    return Preflight(UNDETERMINED, "") if flags["force"] else None


def _report(answer: Preflight, flags: Mapping[str, Any]) -> bool:
    """Print what the check found; whether the job is to be started."""
    refused = answer.verdict == NOT_READY and not flags["force"]
    first = not answer.borrowed  # the other ranks need not repeat what the first one printed
    if flags["verbose"]:
        write_stderr(answer.text)
        unset = {name for name, value in answer.changes.items() if value is None}
        for text, names in (
            (_("set for the job: {names}"), answer.changes.keys() - unset),
            (_("unset for the job: {names}"), unset),
        ):
            if names:
                complain(text.format(names=", ".join(sorted(names))))
    elif answer.verdict == NOT_READY and first and not flags["quiet"]:
        write_stderr(answer.text)
    if first and (flags["verbose"] or (answer.changes and not flags["quiet"])):
        for note in answer.notes:
            complain(note)
    if refused:
        complain(_("{verdict}; the job was not started (--force starts it anyway)", verdict=answer.line))
    elif answer.verdict == NOT_READY:
        complain(_("{verdict}; the job is started anyway", verdict=answer.line))
    elif answer.verdict == UNDETERMINED and answer.line and first:
        complain(_("{verdict}; the job is started", verdict=answer.line))
    return not refused


def _run_job(answer: Preflight, caller: Caller, command: Sequence[str], inherited: InheritedState) -> int:
    """Start the job and wait for it to end; its exit status, or the one for why it was not started."""
    from npudoctor.launch.inherited import original_variables, release_descriptors
    from npudoctor.launch.program import CannotStart
    from npudoctor.launch.starting import start_job
    from npudoctor.launch.watching import JobWatch
    from npudoctor.launch.witness import Witness

    inherited.block_signals()
    witness = Witness(command)
    try:
        job = start_job(command, answer.apply(original_variables(caller.variables)), inherited)
        release_descriptors()
        return JobWatch(job, witness).wait_for_end()
    except CannotStart as error:
        complain(error.reason)
        return error.status
    finally:
        witness.close()


def _bug(error: str) -> str:
    return _("this is a bug in npudoctor: {error}", error=error)


def _out_of_memory() -> str:
    return _("out of memory: the limit (ulimit -v, or the container) is too low")
