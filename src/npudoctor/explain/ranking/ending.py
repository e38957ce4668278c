"""How a log ends: whether what failed in it ended the job, or the job went on; and its runs, when it has
several."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.explain.scanning import levels
from npudoctor.explain.scanning.evidence import Evidence, Seen
from npudoctor.explain.scanning.outline import Outline, Start
from npudoctor.explain.signatures.failures import MARKS, WORDS

TAIL = 16 << 10  # the end of a log, which tells how it went
_ENDS = ("level", "cann", WORDS)  # these count only where they end a log: healthy jobs write errors too
_LOUD = ("exception", "crash", "launcher", "closed", "cancelled", "engine", "ended")
_DEADLY = (*_LOUD, "stillborn")
_LIFE = 20  # so many ordinary lines after an error, and it did not end the job at once;
_LONG = 100  # so many to the end of the log, and it ended nothing: a report has a listing after an error too;
_SOME = 3  # so many, and no process had died of it
_WEIGHTY = 40  # what weighs less says too little to be believed against what follows
# What a small command of the job's script could not do; the script goes on.
_COMMAND = pattern(r"(?:mkdir|rmdir|rm|cp|mv|ln|touch|chmod|chown|cat|ls): \S")
# A source that Python cannot read: nothing of that program goes on.
_UNREAD = pattern(r"(?:Syntax|Indentation|Tab)Error: ")
# A line of the job's own script that the shell could not run: what follows is the same job.
_OF_SCRIPT = pattern(r"\S*/slurm_script: line \d+: ")
# What is no end: an error in the own log of TensorFlow, a warning, and what a process says that was told to.
_NO_END = pattern(r"\bE \w[\w./-]*\.cc:\d+\]|Warning: |^(?:KeyboardInterrupt|SystemExit)\b")
_LONG_LIFE = 200  # after the last word of a process there may be some of others


class Ending:
    """What the course of a file says of what was found in it."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        outline = self._outline = evidence.outline or Outline()
        self._marks = {MARKS[index].name: seen for index, seen in evidence.marks.items()}
        # The last words of what failed, in their order, each with its kind of mark.
        named = [(name, seen) for name, marks in self._marks.items() if name in _DEADLY for seen in marks]
        self._dead = sorted(named, key=lambda dead: dead[1].offset)
        # Of each kind of mark, the places; and of all exceptions that nobody caught.
        self._places = defaultdict[str, frozenset[int]](frozenset)
        for name, marks in self._marks.items():
            self._places[name] = frozenset(seen.offset for seen in marks)
        self._places["uncaught"] = frozenset(seen.offset for _name, seen in self._dead if seen.uncaught)
        # Where an engine said last that it failed, unless it was being ended, or much went on after it.
        engine = max(self._places["engine"], default=None)
        if engine is not None:
            started = any(start.offset > engine for start in outline.starts)
            ended = any(end is not None and end < engine for end in (outline.success, outline.shutdown))
            if started or ended or outline.lines_between(engine) >= _LONG:
                engine = None
        self._dead_engine = engine

    @cached_property
    def runs(self) -> list[Start]:
        """Where each run but the first begins."""
        exceptions = self._marks.get("exception", ())
        unread = (seen for seen in exceptions if _UNREAD.match(seen.text) and not seen.handled)
        dead = [seen for seen in (*self._marks.get("stillborn", ()), *unread) if not (seen.low or seen.cause)]
        stillborn = max(dead, key=lambda seen: seen.offset, default=None)
        starts = list(self._outline.starts)
        if stillborn is not None and not _OF_SCRIPT.match(stillborn.text):
            # A traceback after a program that did not even start is of another one.
            later = [seen for seen in self._marks.get("traceback", ()) if seen.offset > stillborn.offset]
            starts += [Start(seen.offset, seen.line, seen.text) for seen in later[:1]]
        starts.sort(key=lambda start: start.offset)
        # The starts that begin another run: before which, since the last one, a job died.
        runs: list[Start] = []
        for start in starts:
            before = runs[-1].offset if runs else -1
            if any(before < seen.offset < start.offset for _name, seen in self._dead):
                runs.append(start)
        # No run, but a rank that started later than the one that failed: nothing went on, and only a launcher
        # says that something failed.
        while runs and (self._outline.progress is None or self._outline.progress < runs[-1].offset):
            last_words = [(name, seen.offset) for name, seen in self._dead if seen.offset >= runs[-1].offset]
            launcher = {offset for name, offset in last_words if name == "launcher"}
            if not launcher or any(offset not in launcher for _name, offset in last_words):
                break
            runs.pop()
        return runs

    def death(self, first: int, last: int) -> Optional[Seen]:
        """The last word of what failed between two places."""
        return next((seen for _name, seen in reversed(self._dead) if first <= seen.offset < last), None)

    def has_survived(self, seen: Seen, weight: Optional[int] = None) -> bool:
        """Whether the job went on after this line, or this was of an earlier run, or of an orderly
        shutdown. `weight`: of the signature that was found there; None for a mere sign of failure."""
        outline, places, here = self._outline, self._places, seen.offset
        if self.runs and here < self.runs[-1].offset:
            return True
        if here in places["closed"]:
            return any(start.offset > here for start in outline.starts)
        if here in places["cancelled"]:
            # Bars that were only in a buffer, and what it says while it is killed, are no new life.
            ended_well = outline.success is not None and outline.success > here
            started = any(start.offset > here for start in outline.starts)
            return started or ended_well or outline.lines_between(here) >= _LONG
        # That requests were still answered, and how many tokens there had been, and that the server then
        # shuts down in order, does not mend an engine that was killed here.
        engine = self._dead_engine
        if engine is not None and here <= engine and outline.lines_between(here, engine) < _LIFE:
            return False
        if _COMMAND.match(seen.text) and self._evidence.lines - seen.line >= _LONG:
            return True
        final = self._final(seen, weight)
        went = outline.moved if here in places["ended"] else outline.progress
        if not final and went is not None and went > here:
            return True
        # Where little but tidying up follows a good end, only what is loud is a failure.
        success = outline.success
        done = success is not None and here > success and outline.lines_between(success) < _LIFE
        if done and (seen.teardown or not any(here in places[name] for name in _LOUD)):
            return True
        orderly = None not in (outline.shutdown, outline.progress)
        if orderly and here > (outline.shutdown or 0) and here not in places["ended"]:
            return True
        if final:
            return any(place is not None and place > here for place in (outline.success, outline.served))
        weighty = weight is None or weight >= _WEIGHTY
        died = any(here in places[name] for name in _DEADLY)
        return outline.lines_between(here) >= (_LONG_LIFE if died else _LONG if weighty else _LIFE)

    def _final(self, seen: Seen, weight: Optional[int]) -> bool:
        """Whether this ended its process for certain, so that what is written later is of others: heartbeats,
        other ranks that wait for it, bars, what a shutdown says. Only a good end is no consequence of it, or
        a server that answers. A library's own log of errors, and what is tried once more, end nothing."""
        if seen.low or seen.handled or seen.teardown or seen.retried or seen.offset in self._places["ended"]:
            return False
        if _NO_END.search(seen.text):
            return False
        known = weight is not None and weight >= _WEIGHTY
        places = self._places
        return known or seen.uncaught or seen.offset in places["uncaught"] or seen.offset in places["crash"]

    def has_outlived(self, seen: Seen) -> bool:
        """Whether the job went on after this line until something else ended it: the last word of what
        failed, after which nothing went on."""
        last = max((end.offset for name, end in self.failures if name in _DEADLY), default=None)
        return last is not None and self._outline.lines_between(seen.offset, last) >= _LIFE

    def went_on(self, first: int, last: int) -> bool:
        """Whether between two places no process died, and there is ordinary output."""
        died = any(
            name in ("exception", "crash", "engine", "stillborn") and first <= seen.offset < last
            for name, seen in self._dead
        )
        return not died and self._outline.lines_between(first, last) >= _SOME

    def silent(self, seen: Optional[Seen]) -> bool:
        """Whether this, an error or a warning, is the last line of a log in which nothing ever went on."""
        outline = self._outline
        if seen is None or outline.progress is not None or not seen.offset >= outline.last > 0:
            return False
        return not seen.low or levels.warns(seen.text)

    @cached_property
    def failures(self) -> list[tuple[str, Seen]]:
        """The signs of failure after which nothing went on, in the order of MARKS. What only calls itself an
        error ends nothing, and counts only in the tail."""
        tail = self._evidence.end - TAIL
        return [
            (mark.name, seen)
            for mark in MARKS
            for seen in self._marks.get(mark.name, ())
            if mark.name not in _ENDS or seen.offset >= tail
            if not self.has_survived(seen, 0 if mark.name in _ENDS else None)
        ]
