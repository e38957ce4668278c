"""Runs one command line: sets the language, calls the command, and turns every ending into an exit code."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
from collections.abc import Sequence
from typing import Callable

from npudoctor.cli.arguments.table import read_line
from npudoctor.cli.caller import Caller, call_command, exit_now
from npudoctor.cli.terminal import output, signals
from npudoctor.core import messages, threads

BUG = 70  # EX_SOFTWARE
LOST = 74  # EX_IOERR
# With these exit codes standard output stays empty: usage errors, and output that could not be written.
_EMPTY = (64, LOST)
_NOT_EVALUATED = ("--f", "--w")  # --format and --write, also abbreviated: their output is not for `eval`
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def run(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    gc.disable()  # a run is short: garbage collection while modules are loaded costs more than it saves
    # First of all: the next file that is opened would get the number of a closed standard stream.
    output.fill_closed_streams()
    status = _run_to_status(lambda: _run_command(argv), argv)
    _fail_evaluation(argv, status)
    signals.restore_handlers()
    if threads.has_running_threads():
        exit_now(status)
    return status


def _run_command(argv: list[str]) -> int:
    signals.install_handlers()
    # A variable without a name ("=x") cannot be used, and Python cannot pass it to a program.
    variables = {name: value for name, value in os.environ.items() if name}
    # --lang is searched before typer parses the line, as the help texts are translated when it is built.
    value = ""
    for word, following in zip(argv, [*argv[1:], ""]):
        if word == "--":
            break
        if word == "--lang":
            value = following
        elif word.startswith("--lang="):
            value = word.partition("=")[2]
    is_known = value[:2].lower() in messages.LANGUAGES  # else the error is in the caller's language
    caller = Caller(variables, messages.language_of({"NPUDOCTOR_LANG": value}) if is_known else None)
    language = caller.language or messages.language_of(caller.variables)
    messages.activate(language)
    line = read_line(argv)
    if line is not None:
        return call_command(*line, caller) or 0
    if language != "en":  # click looks up its own messages by gettext, and they are in our catalogue
        import gettext

        # gettext prefers LANGUAGE to LANG; click calls gettext without a language.
        os.environ["LANGUAGE"] = messages.LANGUAGES[language]
        gettext.bindtextdomain("npudoctor", messages.catalogues())
        gettext.textdomain("npudoctor")
    from npudoctor.cli.app import build_command_line

    # Not command.main(): it turns a broken pipe into exit code 1, which means "not ready".
    command = build_command_line(argv)
    with command.make_context("npudoctor", list(argv), obj=caller) as context:
        return int(command.invoke(context) or 0)


def _run_to_status(work: Callable[[], int], argv: Sequence[str] = ()) -> int:
    """Do the work; returns an exit code for every way in which it may end."""
    try:
        try:
            status = work()
        except (output.OutputLost, OSError):
            raise
        except Exception as error:
            signal = signals.find_signal(error)
            if signal is not None:
                raise signal from None
            status = _report_error(error)
        if status == 0:
            output.emit("")  # typer printed the help itself: flushing shows whether it was written
    except signals.StoppedBySignal as stopped:
        _fail_evaluation(argv, stopped.status)
        exit_now(stopped.status)
    except output.OutputLost as lost:
        status = _report_lost(str(lost))
    except OSError as error:
        if error.errno in _NO_ROOM:  # no descriptor or memory to import a module or to open a file
            output.complain(messages.strerror(error.errno))
            return BUG
        status = _report_lost(messages.strerror(error.errno))
    return status


def _report_error(error: Exception) -> int:
    try:
        from npudoctor.cli.terminal.refusals import explain_refusal
    except Exception:  # typer cannot be imported; Python's exit code 1 would mean "not ready"
        output.complain(f"{type(error).__name__}: {error}")
        return BUG
    status, line = explain_refusal(error)
    if line is not None:
        output.complain(line)
    return status


def _report_lost(why: str) -> int:
    output.discard_output()
    output.complain(messages._("the result could not be written: {why}").format(why=why))
    return LOST


def _fail_evaluation(argv: Sequence[str], status: int) -> None:
    """Print `false` for `eval "$(npudoctor env)"` when `env` ended without its lines."""
    if argv[:1] != ["env"] or status in (0, *_EMPTY) or output.was_emitted():
        return
    if not any(word.startswith(_NOT_EVALUATED) for word in argv):
        from npudoctor.render.environment import FALSE

        # When this cannot be written either, nothing more can be done.
        with contextlib.suppress(output.OutputLost):
            output.emit(FALSE)
