"""`npudoctor run`: check, set the environment, start the job; exits with the job's exit code."""

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

FAILED = 125  # as env, timeout and docker run: the tool itself failed, and not the command
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
    """Check the node, then start the job; returns only when the job was not started."""
    if verbose and quiet:
        raise UsageError(_("-v and -q cannot be used together"))
    if not command:
        raise UsageError(_("the command to start is missing: npudoctor run [OPTIONS] [--] COMMAND..."))
    # main.py took any --lang of the line; only now are our own options known: one of the job's words is not
    # ours.
    caller = replace(caller, language=lang and messages.language_of({"NPUDOCTOR_LANG": lang}))
    messages.activate(caller.language or messages.language_of(caller.variables))
    try:
        return _check_and_run(caller.parameters, caller, command)
    except UsageError:
        raise
    except OSError as error:  # such as EAGAIN of fork, at ulimit -u
        complain(_("the job could not be started: {why}", why=strerror(error.errno)))
        return FAILED
    except Exception as error:
        # 125 and one line, no traceback: any other exit code could be the job's own.
        complain(
            _out_of_memory_text()
            if is_out_of_memory(error)
            else _bug_text(f"{type(error).__name__}: {error}")
        )
        return FAILED


def _check_and_run(flags: Mapping[str, Any], caller: Caller, command: Sequence[str]) -> int:
    from npudoctor.cli.afterwards import JobStart, explain_failure
    from npudoctor.launch.inherited import InheritedState
    from npudoctor.launch.sharing import withdraw_answer

    inherited = InheritedState.capture()
    answer = _ask_preflight(flags, caller, command)
    if answer is None:
        return FAILED
    if not _report_preflight(answer, flags):
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


def _ask_preflight(flags: Mapping[str, Any], caller: Caller, command: Sequence[str]) -> Optional[Preflight]:
    """Run the check in a child; returns None when it failed and --force was not given."""
    from npudoctor.launch.child import run_in_child

    def work() -> dict[str, Any]:
        from npudoctor.cli.preflight import (
            run_preflight,  # imported in the child only: the parent stays small
        )

        return run_preflight(flags, caller, command, flags["verbose"], os.getppid())

    answer = run_in_child(work) or {}
    messages.activate(answer.get("language", messages.language()))
    if "refused" in answer:
        raise UsageError(answer["refused"])
    if "answer" in answer:
        return preflight_from_json(answer["answer"])
    if "failed" in answer:
        complain(_out_of_memory_text() if answer["memory"] else _bug_text(answer["failed"]))
    else:
        complain(_("the check ended without a result"))
    return Preflight(UNDETERMINED, "") if flags["force"] else None


def _report_preflight(answer: Preflight, flags: Mapping[str, Any]) -> bool:
    """Print the result of the check; returns whether to start the job."""
    is_refused = answer.verdict == NOT_READY and not flags["force"]
    is_first_rank = not answer.borrowed  # the other ranks do not repeat the text
    if flags["verbose"]:
        write_stderr(answer.text)
        unset = {name for name, value in answer.changes.items() if value is None}
        for text, names in (
            (_("set for the job: {names}"), answer.changes.keys() - unset),
            (_("unset for the job: {names}"), unset),
        ):
            if names:
                complain(text.format(names=", ".join(sorted(names))))
    elif answer.verdict == NOT_READY and is_first_rank and not flags["quiet"]:
        write_stderr(answer.text)
    if is_first_rank and (flags["verbose"] or (answer.changes and not flags["quiet"])):
        for note in answer.notes:
            complain(note)
    if is_refused:
        complain(_("{verdict}; the job was not started (--force starts it anyway)", verdict=answer.line))
    elif answer.verdict == NOT_READY:
        complain(_("{verdict}; the job is started anyway", verdict=answer.line))
    elif answer.verdict == UNDETERMINED and answer.line and is_first_rank:
        complain(_("{verdict}; the job is started", verdict=answer.line))
    return not is_refused


def _run_job(answer: Preflight, caller: Caller, command: Sequence[str], inherited: InheritedState) -> int:
    """Start the job and wait for its end; returns its exit code, or 126 or 127 when it cannot be started."""
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


def _bug_text(error: str) -> str:
    return _("this is a bug in npudoctor: {error}", error=error)


def _out_of_memory_text() -> str:
    return _("out of memory: the limit (ulimit -v, or the container) is too low")
