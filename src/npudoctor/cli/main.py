"""Runs one command line: language, command, and for every way it may end one exit status."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
from collections.abc import Sequence
from typing import Callable

from npudoctor.cli.arguments.table import read_line
from npudoctor.cli.caller import Caller, call, exit_now
from npudoctor.cli.terminal import output, signals
from npudoctor.core import messages, threads

BUG = 70  # EX_SOFTWARE
LOST = 74  # EX_IOERR
# These statuses leave standard output empty: usage and configuration errors, and what could not be written.
_EMPTY = (64, LOST)
_NOT_EVALUATED = ("--f", "--w")  # --format and --write: no shell evaluates what is printed then
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def run(argv: list[str]) -> int:
    """Run the command line; returns the exit status."""
    gc.disable()  # a run is short: looking for garbage while modules load costs more than the garbage
    output.fill_closed_streams()
    status = _exit_status(lambda: _invoke(argv), argv)
    _fail_evaluation(argv, status)
    signals.restore_handlers()
    if threads.has_running_threads():
        exit_now(status)
    return status


def _invoke(argv: list[str]) -> int:
    signals.install_handlers()
    # One without a name ("=x") nobody can ask for, and Python can hand it to no program.
    variables = {name: value for name, value in os.environ.items() if name}
    # The value of --lang is looked for before typer is asked, as its help is translated when it is built.
    value = ""
    for word, following in zip(argv, [*argv[1:], ""]):
        if word == "--":
            break
        if word == "--lang":
            value = following
        elif word.startswith("--lang="):
            value = word.partition("=")[2]
    known = value[:2].lower() in messages.LANGUAGES  # else refused in the caller's own
    caller = Caller(variables, messages.language_of({"NPUDOCTOR_LANG": value}) if known else None)
    language = caller.language or messages.language_of(caller.variables)
    messages.activate(language)
    line = read_line(argv)
    if line is not None:
        return call(*line, caller) or 0
    if language != "en":  # click's own sentences are in our catalogue
        import gettext

        os.environ["LANGUAGE"] = messages.LANGUAGES[language]
        gettext.bindtextdomain("npudoctor", messages.catalogues())
        gettext.textdomain("npudoctor")
    from npudoctor.cli.app import command_line

    # Not .main(): it would turn a broken pipe into status 1, which means "not ready".
    command = command_line(argv)
    with command.make_context("npudoctor", list(argv), obj=caller) as context:
        return int(command.invoke(context) or 0)


def _exit_status(work: Callable[[], int], argv: Sequence[str] = ()) -> int:
    """Do the work; the exit status of every way in which it may end."""
    try:
        try:
            status = work()
        except (output.Lost, OSError):
            raise
        except Exception as error:
            signal = signals.signal_behind(error)
            if signal is not None:
                raise signal from None
            status = _report_error(error)
        if status == 0:
            output.emit("")  # typer itself wrote the help: flushing shows whether it arrived
    except signals.Stopped as stopped:
        _fail_evaluation(argv, stopped.status)
        exit_now(stopped.status)
    except output.Lost as lost:
        status = _report_lost(str(lost))
    except OSError as error:
        if error.errno in _NO_ROOM:  # to load what we are made of, or to open what is to be looked at
            output.complain(messages.strerror(error.errno))
            return BUG
        status = _report_lost(messages.strerror(error.errno))
    return status


def _report_error(error: Exception) -> int:
    try:
        from npudoctor.cli.terminal.refusals import refusal
    except Exception:  # not even typer is here; Python's own status 1 would mean "not ready"
        output.complain(f"{type(error).__name__}: {error}")
        return BUG
    status, line = refusal(error)
    if line is not None:
        output.complain(line)
    return status


def _report_lost(why: str) -> int:
    output.discard_output()
    output.complain(messages._("the result could not be written: {why}").format(why=why))
    return LOST


def _fail_evaluation(argv: Sequence[str], status: int) -> None:
    """Print what makes `eval "$(npudoctor env)"` fail where `env` ended without its lines."""
    if argv[:1] != ["env"] or status in (0, *_EMPTY) or output.was_emitted():
        return
    if not any(word.startswith(_NOT_EVALUATED) for word in argv):
        from npudoctor.render.environment import FALSE

        with contextlib.suppress(output.Lost):
            output.emit(FALSE)
