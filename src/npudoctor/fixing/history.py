"""What earlier runs did, read from their journals: how each ended, and what of it is undone or can be."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.fixing.steps.steps import KnownStep, decode, encode
from npudoctor.host.records import Record, Records

# How a run ended: by itself, by an exception, without a word, or not yet.
FINISHED, INTERRUPTED, KILLED, RUNNING = "finished", "interrupted", "killed", "running"
UNKNOWN = "unknown"  # whether a step was taken: its run was killed midway


@dataclass(frozen=True)
class StepRecord:
    """One step of a run. `status`: how it ended; `step`: None where this version does not know its kind.

    `changed`: whether something was changed, None when unknown. `undone`: a later run took it back. `tried`:
    a later run began to, and was stopped midway.
    """

    item: object
    check: str
    code: str
    step: Optional[KnownStep]
    kind: str
    status: str
    reason: str
    changed: Optional[bool]
    undone: bool = False
    tried: bool = False

    @property
    def back(self) -> Optional[KnownStep]:
        """The step that takes it back; None where nothing can, or nothing was done."""
        way = getattr(self.step, "back", None)
        step: Optional[KnownStep] = way() if way and self.changed is not False else None
        return step

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the step; its kind where this version does not know it."""
        return self.step.lines() if self.step is not None else (self.kind,)

    @property
    def remains(self) -> bool:
        """Whether it may have changed something that nobody has taken back yet."""
        return self.changed is not False and not self.undone


@dataclass(frozen=True)
class FixRun:
    """One run of `fix`, or one of `undo`, which took back the run `undoes`."""

    name: str
    started: Optional[str]
    ended: Optional[str]
    status: str
    exit_code: Optional[int]
    msg: str
    undoes: Optional[str]
    undone_by: tuple[str, ...]
    acts: tuple[StepRecord, ...]

    @property
    def undoable(self) -> bool:
        """Whether `undo` of this run would do something."""
        return self.undoes is None and any(act.remains and act.back for act in self.acts)


def runs_of(records: Records) -> list[FixRun]:
    """All runs, the newest first."""
    by_run: dict[str, list[Record]] = {}
    for record in records.read_all():
        by_run.setdefault(record.run, []).append(record)
    read = [_read_run(name, rows) for name, rows in by_run.items()]
    undoing = [run for run in read if run.undoes]
    runs = [_with_undos(run, [undo for undo in undoing if undo.undoes == run.name]) for run in read]
    runs.reverse()
    # Its journal has no end yet, as that of a run that was killed.
    if runs and runs[0].status == KILLED and _is_locked(records.directory):
        runs[0] = replace(runs[0], status=RUNNING)
    return runs


def _read_run(name: str, rows: Sequence[Record]) -> FixRun:
    end = next((row for row in rows if row.event == "end"), None)
    stopped = next((row for row in rows if row.event == "interrupted"), None)
    status = end.data.get("exit_code") if end else None
    # A killed run has neither.
    last = end or stopped
    return FixRun(
        name=name,
        started=_text(rows[0], "at"),
        ended=_text(last, "at") if last else None,
        status=FINISHED if end else INTERRUPTED if stopped else KILLED,
        exit_code=status if isinstance(status, int) else None,
        msg=(_text(end, "msg") or "") if end else "",
        undoes=next((_text(row, "undoes") for row in rows if row.event == "undoes"), None),
        undone_by=(),
        acts=tuple(_read_acts(rows)),
    )


def _read_acts(rows: Sequence[Record]) -> Iterable[StepRecord]:
    """Yield the steps of a run. A record stands before each step, and one after it unless the run was killed
    in between.
    """
    for row, following in zip(rows, [*rows[1:], None]):
        if row.event != "before":
            continue
        after = following if following and following.event == "after" else None
        changed: Optional[bool] = None
        if after is not None:
            recorded = after.data.get("changed")
            # Journals of old versions have no "changed".
            changed = recorded if isinstance(recorded, bool) else after.data.get("status") == "applied"
        step: Optional[KnownStep] = None
        # A step of a newer version; it is shown by its kind.
        with suppress(KeyError, TypeError, ValueError):
            step = decode(row.step)
        yield StepRecord(
            item=row.data.get("item"),
            check=_text(row, "check") or "",
            code=_text(row, "code") or "",
            step=step,
            kind=str(row.step.get("kind")),
            status=(_text(after, "status") or UNKNOWN) if after else UNKNOWN,
            reason=(_text(after, "reason") or "") if after else "",
            changed=changed,
        )


def _with_undos(run: FixRun, undoing: Sequence[FixRun]) -> FixRun:
    """The run with what later runs undid of it; equal steps are counted."""
    done: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for act in (act for undo in undoing for act in undo.acts if act.step is not None):
        # A step that was begun and has no end may have been done.
        (done if act.status in ("applied", "already") else tried)[_step_key(act.step)] += 1
    acts = []
    for act in run.acts:
        key = _step_key(act.back)
        undone = done[key] > 0
        done[key] -= undone
        acts.append(replace(act, undone=undone, tried=tried[key] > 0))
    undone_by = [
        undo.name for undo in undoing if any(act.status in ("applied", "already") for act in undo.acts)
    ]
    return replace(run, acts=tuple(acts), undone_by=tuple(undone_by))


def _step_key(step: Optional[KnownStep]) -> str:
    return json.dumps(encode(step), sort_keys=True) if step is not None else ""


def _is_locked(directory: str) -> bool:
    """Return whether a run is at work right now, which holds the lock."""
    try:
        descriptor = os.open(os.path.join(directory, "lock"), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _text(record: Record, name: str) -> Optional[str]:
    value = record.data.get(name)
    return value if isinstance(value, str) else None
