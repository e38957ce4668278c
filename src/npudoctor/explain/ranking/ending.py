"""How a log ends: whether what failed in it ended the job, or the job went on; and its runs, when it has
several."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.explain.scanning import levels
from npudoctor.explain.scanning.evidence import Evidence, LogLine
from npudoctor.explain.scanning.outline import Outline, RunStart
from npudoctor.explain.signatures.failures import MARKS, WORDS

# Bytes.
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


class LogEnding:
    """Judges the findings of one file by its course: whether the job went on after them."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        outline = self._outline = evidence.outline or Outline()
        self._marks = {MARKS[index].name: log_line for index, log_line in evidence.marks.items()}
        # The last words of what failed, in their order, each with its kind of mark.
        last_words = [
            (name, log_line) for name, marks in self._marks.items() if name in _DEADLY for log_line in marks
        ]
        self._dead = sorted(last_words, key=lambda dead: dead[1].offset)
        # Of each kind of mark, the places; and of all exceptions that nobody caught.
        self._places = defaultdict[str, frozenset[int]](frozenset)
        for name, marks in self._marks.items():
            self._places[name] = frozenset(log_line.offset for log_line in marks)
        self._places["uncaught"] = frozenset(
            log_line.offset for _name, log_line in self._dead if log_line.is_uncaught
        )
        # Where an engine said last that it failed, unless it was being ended, or much went on after it.
        engine = max(self._places["engine"], default=None)
        if engine is not None:
            started = any(start.offset > engine for start in outline.starts)
            ended = any(end is not None and end < engine for end in (outline.success, outline.shutdown))
            if started or ended or outline.lines_between(engine) >= _LONG:
                engine = None
        self._dead_engine = engine

    @cached_property
    def run_starts(self) -> list[RunStart]:
        """The start of each run in the file except the first one."""
        exceptions = self._marks.get("exception", ())
        unread = (
            log_line for log_line in exceptions if _UNREAD.match(log_line.text) and not log_line.is_handled
        )
        dead = [
            log_line
            for log_line in (*self._marks.get("stillborn", ()), *unread)
            if not (log_line.is_mild or log_line.is_direct_cause)
        ]
        stillborn = max(dead, key=lambda log_line: log_line.offset, default=None)
        starts = list(self._outline.starts)
        if stillborn is not None and not _OF_SCRIPT.match(stillborn.text):
            # A traceback after a program that did not even start is of another one.
            later = [
                log_line
                for log_line in self._marks.get("traceback", ())
                if log_line.offset > stillborn.offset
            ]
            starts += [RunStart(log_line.offset, log_line.line, log_line.text) for log_line in later[:1]]
        starts.sort(key=lambda start: start.offset)
        # The starts that begin another run: before which, since the last one, a job died.
        runs: list[RunStart] = []
        for start in starts:
            before = runs[-1].offset if runs else -1
            if any(before < log_line.offset < start.offset for _name, log_line in self._dead):
                runs.append(start)
        # No run, but a rank that started later than the one that failed: nothing went on, and only a launcher
        # says that something failed.
        while runs and (self._outline.progress is None or self._outline.progress < runs[-1].offset):
            last_words = [
                (name, log_line.offset) for name, log_line in self._dead if log_line.offset >= runs[-1].offset
            ]
            launcher = {offset for name, offset in last_words if name == "launcher"}
            if not launcher or any(offset not in launcher for _name, offset in last_words):
                break
            runs.pop()
        return runs

    def find_death(self, first: int, last: int) -> Optional[LogLine]:
        """The last line between two offsets by which something failed; None without one."""
        return next(
            (log_line for _name, log_line in reversed(self._dead) if first <= log_line.offset < last), None
        )

    def has_survived(self, log_line: LogLine, weight: Optional[int] = None) -> bool:
        """Whether the job went on after this line, or this was of an earlier run, or of an orderly
        shutdown. `weight`: of the signature that was found there; None for a mere sign of failure."""
        outline, places, offset = self._outline, self._places, log_line.offset
        if self.run_starts and offset < self.run_starts[-1].offset:
            return True
        if offset in places["closed"]:
            return any(start.offset > offset for start in outline.starts)
        if offset in places["cancelled"]:
            # Bars that were only in a buffer, and what it says while it is killed, are no new life.
            ended_well = outline.success is not None and outline.success > offset
            started = any(start.offset > offset for start in outline.starts)
            return started or ended_well or outline.lines_between(offset) >= _LONG
        # That requests were still answered, and how many tokens there had been, and that the server then
        # shuts down in order, does not mend an engine that was killed here.
        engine = self._dead_engine
        if engine is not None and offset <= engine and outline.lines_between(offset, engine) < _LIFE:
            return False
        if _COMMAND.match(log_line.text) and self._evidence.lines - log_line.line >= _LONG:
            return True
        is_final = self._is_final(log_line, weight)
        went = outline.moved if offset in places["ended"] else outline.progress
        if not is_final and went is not None and went > offset:
            return True
        # Where little but tidying up follows a good end, only what is loud is a failure.
        success = outline.success
        is_after_success = success is not None and offset > success and outline.lines_between(success) < _LIFE
        if is_after_success and (log_line.is_teardown or not any(offset in places[name] for name in _LOUD)):
            return True
        was_shut_down = None not in (outline.shutdown, outline.progress)
        if was_shut_down and offset > (outline.shutdown or 0) and offset not in places["ended"]:
            return True
        if is_final:
            return any(place is not None and place > offset for place in (outline.success, outline.served))
        is_weighty = weight is None or weight >= _WEIGHTY
        ended_process = any(offset in places[name] for name in _DEADLY)
        return outline.lines_between(offset) >= (
            _LONG_LIFE if ended_process else _LONG if is_weighty else _LIFE
        )

    def _is_final(self, log_line: LogLine, weight: Optional[int]) -> bool:
        """Whether this ended its process for certain, so that what is written later is of others: heartbeats,
        other ranks that wait for it, bars, what a shutdown says. Only a good end is no consequence of it, or
        a server that answers. A library's own log of errors, and what is tried once more, end nothing."""
        if (
            log_line.is_mild
            or log_line.is_handled
            or log_line.is_teardown
            or log_line.is_retried
            or log_line.offset in self._places["ended"]
        ):
            return False
        if _NO_END.search(log_line.text):
            return False
        is_weighty = weight is not None and weight >= _WEIGHTY
        places = self._places
        return (
            is_weighty
            or log_line.is_uncaught
            or log_line.offset in places["uncaught"]
            or log_line.offset in places["crash"]
        )

    def has_outlived(self, log_line: LogLine) -> bool:
        """Whether the job went on after this line until something else ended it: the last word of what
        failed, after which nothing went on."""
        last = max((end.offset for name, end in self.failures if name in _DEADLY), default=None)
        return last is not None and self._outline.lines_between(log_line.offset, last) >= _LIFE

    def has_gone_on(self, first: int, last: int) -> bool:
        """Whether between two places no process died, and there is ordinary output."""
        process_died = any(
            name in ("exception", "crash", "engine", "stillborn") and first <= log_line.offset < last
            for name, log_line in self._dead
        )
        return not process_died and self._outline.lines_between(first, last) >= _SOME

    def is_last_word(self, log_line: Optional[LogLine]) -> bool:
        """Whether this, an error or a warning, is the last line of a log in which nothing ever went on."""
        outline = self._outline
        if log_line is None or outline.progress is not None or not log_line.offset >= outline.last > 0:
            return False
        return not log_line.is_mild or levels.is_warning(log_line.text)

    @cached_property
    def failures(self) -> list[tuple[str, LogLine]]:
        """The signs of failure after which nothing went on, in the order of MARKS. What only calls itself an
        error ends nothing, and counts only in the tail."""
        tail = self._evidence.end - TAIL
        return [
            (mark.name, log_line)
            for mark in MARKS
            for log_line in self._marks.get(mark.name, ())
            if mark.name not in _ENDS or log_line.offset >= tail
            if not self.has_survived(log_line, 0 if mark.name in _ENDS else None)
        ]
