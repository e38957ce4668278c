"""Renders earlier runs of `fix` and `undo`: as text, and as npudoctor.history/1."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Optional

from npudoctor import __version__
from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact, redact_lines, redact_value
from npudoctor.fixing.history import FINISHED, INTERRUPTED, KILLED, RUNNING, UNKNOWN, FixRun, StepRecord
from npudoctor.render.columns import pad, paragraph, shorten, width
from npudoctor.render.fix import DEEPER, INDENT, status_words
from npudoctor.render.printable import printable

SCHEMA = "npudoctor.history/1"
_MINUTE = len("2026-01-31 12:34")  # a list of runs shows no seconds


def history_object(runs: Sequence[FixRun]) -> dict[str, object]:
    """The npudoctor.history/1 document, the newest run first."""
    return {"schema": SCHEMA, "version": __version__, "runs": [_run_object(run) for run in runs]}


def _run_object(run: FixRun) -> dict[str, object]:
    return {
        "run": run.name,
        "started": run.started,
        "ended": run.ended,
        "status": run.status,
        "exit_code": run.exit_code,
        "msg": redact(run.msg) or None,
        "undoes": run.undoes,
        "undone_by": list(run.undone_by),
        "undoable": run.undoable,
        "actions": [_act_object(act) for act in run.acts],
    }


def _act_object(act: StepRecord) -> dict[str, object]:
    shown = {
        "check": act.check,
        "code": act.code,
        "status": act.status,
        "reason": act.reason or None,
        "changed": act.changed,
        "undone": act.undone,
        "commands": list(act.step.lines()) if act.step else [],
        "undo": list(act.back.lines()) if act.back else [],
    }
    return {key: redact_value(value) for key, value in shown.items()}


def history_text(runs: Sequence[FixRun]) -> str:
    """One line per run: name, start, status, and whether it can be undone."""
    if not runs:
        return _("no run of `npudoctor fix` is recorded for this user") + "\n"
    names = max(width(printable(run.name)) for run in runs)
    return "".join(f"{_run_line(run, names)}\n" for run in runs)


def _run_line(run: FixRun, names: int) -> str:
    """The line of a run, cut to the width of a line; `run_text` shows all of it."""
    parts = [_status_text(run)]
    if run.undoes:
        parts.insert(0, _("undo"))
    if run.undone_by:
        parts.append(_("undone since"))
    elif run.undoable:
        parts.append(_("can be undone"))
    minute = local_time(run.started)[:_MINUTE]
    line = f"{pad(printable(run.name), names)}  {minute}  {printable(_('; ').join(parts))}"
    return shorten(line)


def run_text(run: FixRun) -> str:
    """Everything that one run did, and how to undo it."""
    return "".join(line + "\n" for line in _run_lines(run))


def _run_lines(run: FixRun) -> Iterator[str]:
    yield printable(f"{run.name}  {local_time(run.started)}  {_status_text(run)}")
    if run.undoes:
        yield from paragraph(_("it undid run {run}", run=run.undoes), INDENT, INDENT)
    for act in run.acts:
        words = {ending.value: word for ending, word in status_words().items()}
        words[UNKNOWN] = _("started; how it ended is unknown")
        yield printable(f"{INDENT}{words.get(act.status, act.status)}: {act.code}")
        if act.reason:
            yield from paragraph(_("why: {reason}", reason=redact(act.reason)), DEEPER, DEEPER)
        for line in redact_lines(act.lines):
            yield f"{DEEPER}$ {printable(line)}"
        fate = _undo_text(act, run)
        if fate:
            yield f"{DEEPER}{fate}"
        if act.remains and act.back and run.undoes is None:
            for line in redact_lines(act.back.lines()):
                yield f"{DEEPER}$ {printable(line)}"
    if not run.acts:
        yield f"{INDENT}{_('nothing was done')}"
    if run.undone_by:
        text = _("undone by {runs}", runs=", ".join(run.undone_by))
        yield from paragraph(text, INDENT, INDENT)
    if run.undoable:
        yield from paragraph(_("to undo it: npudoctor undo {run}", run=run.name), INDENT, INDENT)


def _status_text(run: FixRun) -> str:
    texts = {
        FINISHED: _("finished: {msg}", msg=redact(run.msg)),
        INTERRUPTED: _("interrupted"),
        KILLED: _("killed midway"),
        RUNNING: _("still running"),
    }
    return texts[run.status]


def _undo_text(act: StepRecord, run: FixRun) -> Optional[str]:
    """Whether a step was undone, or can be; None when nothing was changed, or the run is an undo itself."""
    if act.undone:
        return _("since undone")
    if act.changed is False or run.undoes is not None:
        return None
    return _("to undo it:") if act.back else _("this cannot be undone")


def local_time(moment: Optional[str]) -> str:
    """A time of the journal (UTC) in local time; "?" when there is none."""
    # The journal is the user's own file, and may have been edited: then the text as it is.
    with suppress(ValueError, OverflowError, OSError):
        # Not time.mktime, which reads a time as local.
        seconds = calendar.timegm(time.strptime(moment or "", "%Y-%m-%dT%H:%M:%SZ"))
        return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))
    return moment or "?"
