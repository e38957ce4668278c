"""What earlier runs did, for people and as npudoctor.history/1."""

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
from npudoctor.render.columns import paragraph
from npudoctor.render.fix_text import DEEPER, INDENT, ending_words
from npudoctor.render.printable import printable

SCHEMA = "npudoctor.history/1"


def history_object(runs: Sequence[FixRun]) -> dict[str, object]:
    """The JSON object, the newest run first."""
    return {"schema": SCHEMA, "version": __version__, "runs": [_run_object(run) for run in runs]}


def _run_object(run: FixRun) -> dict[str, object]:
    return {
        "run": run.name,
        "started": run.started,
        "ended": run.ended,
        "status": run.ending,
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
    """One block for each run."""
    if not runs:
        return _("no run of `npudoctor fix` is recorded for this user") + "\n"
    return "\n".join("".join(line + "\n" for line in _block(run)) for run in runs)


def _block(run: FixRun) -> Iterator[str]:
    yield printable(f"{run.name}  {local(run.started)}  {_ending(run)}")
    if run.undoes:
        yield from paragraph(_("it undid run {run}").format(run=run.undoes), INDENT, INDENT)
    for act in run.acts:
        yield from _act(act, run)
    if not run.acts:
        yield f"{INDENT}{_('nothing was done')}"
    if run.undone_by:
        text = _("undone by {runs}").format(runs=", ".join(run.undone_by))
        yield from paragraph(text, INDENT, INDENT)
    if run.undoable:
        yield from paragraph(_("to undo it: npudoctor undo {run}").format(run=run.name), INDENT, INDENT)


def _ending(run: FixRun) -> str:
    texts = {
        FINISHED: _("finished: {msg}").format(msg=redact(run.msg)),
        INTERRUPTED: _("interrupted"),
        KILLED: _("killed midway"),
        RUNNING: _("still running"),
    }
    return texts[run.ending]


def _act(act: StepRecord, run: FixRun) -> Iterator[str]:
    words = {ending.value: word for ending, word in ending_words().items()}
    words[UNKNOWN] = _("started; how it ended is unknown")
    yield printable(f"{INDENT}{words.get(act.status, act.status)}: {act.code}")
    if act.reason:
        yield from paragraph(_("why: {reason}").format(reason=redact(act.reason)), DEEPER, DEEPER)
    for line in redact_lines(act.step.lines()) if act.step else (act.kind,):
        yield f"{DEEPER}$ {printable(line)}"
    fate = _fate(act, run)
    if fate:
        yield f"{DEEPER}{fate}"
    if act.remains and act.back and run.undoes is None:
        for line in redact_lines(act.back.lines()):
            yield f"{DEEPER}$ {printable(line)}"


def _fate(act: StepRecord, run: FixRun) -> Optional[str]:
    """What can be said of taking it back."""
    if act.undone:
        return _("since undone")
    if act.changed is False or run.undoes is not None:
        return None
    return _("to undo it:") if act.back else _("this cannot be undone")


def local(moment: Optional[str]) -> str:
    """A moment of the journal as the clock on the wall shows it."""
    with suppress(ValueError, OverflowError, OSError):
        seconds = calendar.timegm(time.strptime(moment or "", "%Y-%m-%dT%H:%M:%SZ"))
        return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))
    return moment or "?"
