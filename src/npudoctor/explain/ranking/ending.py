"""How a log ends: whether what failed in it ended the job, or the job went on; and its runs, when it has
several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Optional

from npudoctor.explain.scanning import levels
from npudoctor.explain.scanning.evidence import Evidence, Seen
from npudoctor.explain.scanning.outline import Outline, Start, noted
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
_COMMAND = re.compile(r"(?:mkdir|rmdir|rm|cp|mv|ln|touch|chmod|chown|cat|ls): \S")
# A source that Python cannot read: nothing of that program goes on.
_UNREAD = re.compile(r"(?:Syntax|Indentation|Tab)Error: ")
# A line of the job's own script that the shell could not run: what follows is the same job.
_OF_SCRIPT = re.compile(r"\S*/slurm_script: line \d+: ")
# What is no end: an error in the own log of TensorFlow, a warning, and what a process says that was told to.
_NO_END = re.compile(r"\bE \w[\w./-]*\.cc:\d+\]|Warning: |^(?:KeyboardInterrupt|SystemExit)\b")
_LONG_LIFE = 200  # after the last word of a process there may be some of others


class Ending:
    """What the course of a file says of what was found in it."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._outline = evidence.outline or Outline()
        self._tail = evidence.end - TAIL

    @cached_property
    def runs(self) -> list[Start]:
        """Where each run but the first begins."""
        starts = sorted((*self._outline.starts, *self._after_stillborn), key=lambda one: one.offset)
        runs = noted(starts, [seen.offset for seen in self._dead])
        while runs and self._belated(runs[-1].offset):
            runs.pop()
        return runs

    def _belated(self, begin: int) -> bool:
        """Whether what begins here is no run, but a rank that started later than the one that failed: nothing
        went on, and only a launcher says that something failed."""
        if self._outline.progress is not None and self._outline.progress >= begin:
            return False
        said = [(name, seen.offset) for name, seen in self._named_dead if seen.offset >= begin]
        launcher = {offset for name, offset in said if name == "launcher"}
        return bool(launcher) and all(offset in launcher for _name, offset in said)

    @cached_property
    def _after_stillborn(self) -> list[Start]:
        """A traceback after a program that did not even start is of another one."""
        marks = self._evidence.marks
        named = {MARKS[index].name: marks[index] for index in marks}
        unread = (
            seen for seen in named.get("exception", ()) if _UNREAD.match(seen.text) and not seen.handled
        )
        dead = [seen for seen in (*named.get("stillborn", ()), *unread) if not (seen.low or seen.cause)]
        stillborn = max(dead, key=lambda seen: seen.offset, default=None)
        if stillborn is None or _OF_SCRIPT.match(stillborn.text):
            return []
        later = [seen for seen in named.get("traceback", ()) if seen.offset > stillborn.offset]
        return [Start(seen.offset, seen.line, seen.text) for seen in later[:1]]

    @cached_property
    def begin(self) -> int:
        """Where the last run begins."""
        return self.runs[-1].offset if self.runs else 0

    @cached_property
    def _named_dead(self) -> list[tuple[str, Seen]]:
        marks = self._evidence.marks
        named = ((MARKS[index].name, seen) for index in marks for seen in marks[index])
        return [(name, seen) for name, seen in named if name in _DEADLY]

    @cached_property
    def _dead(self) -> list[Seen]:
        return sorted((seen for _name, seen in self._named_dead), key=lambda seen: seen.offset)

    @cached_property
    def _deaths(self) -> frozenset[int]:
        return frozenset(seen.offset for seen in self._dead)

    def death(self, first: int, last: int) -> Optional[Seen]:
        """The last word of what failed between two places."""
        found = [seen for seen in self._dead if first <= seen.offset < last]
        return found[-1] if found else None

    def survived(self, seen: Seen, weight: Optional[int] = None) -> bool:
        """Whether the job went on after this line, or this was of an earlier run, or of an orderly
        shutdown. `weight`: of the signature that was found there; None for a mere sign of failure."""
        outline = self._outline
        if seen.offset < self.begin:
            return True
        if seen.offset in self._closed:
            return any(start.offset > seen.offset for start in outline.starts)
        if seen.offset in self._cancelled:
            return self._put_back(seen.offset)
        if self._of_engine(seen.offset):
            return False
        if _COMMAND.match(seen.text) and self._evidence.lines - seen.line >= _LONG:
            return True
        final = self._final(seen, weight)
        went = outline.moved if seen.offset in self._ended else outline.progress
        if not final and went is not None and went > seen.offset:
            return True
        quiet = seen.teardown or seen.offset not in self._loud
        if self._success is not None and seen.offset > self._success and quiet:
            return True
        orderly = outline.shutdown is not None and outline.progress is not None
        if orderly and seen.offset > (outline.shutdown or 0) and seen.offset not in self._ended:
            return True
        if final:
            return any(
                place is not None and place > seen.offset for place in (outline.success, outline.served)
            )
        weighty = weight is None or weight >= _WEIGHTY
        enough = _LONG_LIFE if seen.offset in self._deaths else _LONG if weighty else _LIFE
        return outline.lines_between(seen.offset) >= enough

    def _final(self, seen: Seen, weight: Optional[int]) -> bool:
        """Whether this ended its process for certain, so that what is written later is of others: heartbeats,
        other ranks that wait for it, bars, what a shutdown says. Only a good end is no consequence of it, or
        a server that answers. A library's own log of errors, and what is tried once more, end nothing."""
        if seen.low or seen.handled or seen.teardown or seen.retried or seen.offset in self._ended:
            return False
        if _NO_END.search(seen.text):
            return False
        known = weight is not None and weight >= _WEIGHTY
        return known or seen.uncaught or seen.offset in self._uncaught or seen.offset in self._crashed

    def _put_back(self, cancelled: int) -> bool:
        """Whether the job was started again after it had been cancelled: bars that were only in a buffer, and
        what it says while it is killed, are no new life."""
        outline = self._outline
        if any(start.offset > cancelled for start in outline.starts):
            return True
        ended_well = outline.success is not None and outline.success > cancelled
        return ended_well or outline.lines_between(cancelled) >= _LONG

    def _of_engine(self, place: int) -> bool:
        """Whether what is here killed the engine of a server: that requests were still answered, and how many
        tokens there had been, and that the server then shuts down in order, does not mend it."""
        dead = self._dead_engine
        return dead is not None and place <= dead and self._outline.lines_between(place, dead) < _LIFE

    @cached_property
    def _dead_engine(self) -> Optional[int]:
        """Where an engine said last that it failed, unless it was being ended, or much went on after it."""
        outline = self._outline
        last = max(self._places(("engine",)), default=None)
        if last is None or any(start.offset > last for start in outline.starts):
            return None
        told = [place for place in (outline.success, outline.shutdown) if place is not None]
        if any(place < last for place in told) or outline.lines_between(last) >= _LONG:
            return None
        return last

    @cached_property
    def _cancelled(self) -> frozenset[int]:
        """The places at which a scheduler ended the job."""
        return self._places(("cancelled",))

    @cached_property
    def _ended(self) -> frozenset[int]:
        """The places at which a process says that it was told to end: it may still save how far it came."""
        return self._places(("ended",))

    @cached_property
    def _success(self) -> Optional[int]:
        """Where the job ended well, when little but tidying up follows."""
        success = self._outline.success
        short = success is not None and self._outline.lines_between(success) < _LIFE
        return success if short else None

    @cached_property
    def _crashed(self) -> frozenset[int]:
        """The places at which a process says that it crashed."""
        return self._places(("crash",))

    @cached_property
    def _uncaught(self) -> frozenset[int]:
        """The places of exceptions that nobody caught."""
        return frozenset(seen.offset for seen in self._dead if seen.uncaught)

    @cached_property
    def _closed(self) -> frozenset[int]:
        """The places of the last words of launchers and schedulers."""
        return self._places(("closed",))

    @cached_property
    def _loud(self) -> frozenset[int]:
        """The places of what is a failure even after the job ended well."""
        return self._places(_LOUD)

    def _places(self, names: tuple[str, ...]) -> frozenset[int]:
        marks = self._evidence.marks
        return frozenset(
            seen.offset for index in marks if MARKS[index].name in names for seen in marks[index]
        )

    def outlived(self, seen: Seen) -> bool:
        """Whether the job went on after this line until something else ended it."""
        last = self.last
        return last is not None and self._outline.lines_between(seen.offset, last.offset) >= _LIFE

    def went_on(self, first: int, last: int) -> bool:
        """Whether between two places no process died, and there is ordinary output."""
        died = any(
            name in ("exception", "crash", "engine", "stillborn") and first <= seen.offset < last
            for name, seen in self._named_dead
        )
        return not died and self._outline.lines_between(first, last) >= _SOME

    def silent(self, seen: Optional[Seen]) -> bool:
        """Whether this, an error or a warning, is the last line of a log in which nothing ever went on."""
        outline = self._outline
        if seen is None or outline.progress is not None or not seen.offset >= outline.last > 0:
            return False
        return not seen.low or levels.warns(seen.text)

    @property
    def died(self) -> bool:
        """Whether the process itself says last that it failed."""
        return any(name in ("exception", "crash") for name, _seen in self.failures())

    @cached_property
    def last(self) -> Optional[Seen]:
        """The last word of what failed: nothing went on after it."""
        found = [seen for name, seen in self.failures() if name in _DEADLY]
        return max(found, key=lambda seen: seen.offset, default=None)

    def failures(self) -> Iterator[tuple[str, Seen]]:
        """The signs of failure after which nothing went on, in the order of MARKS."""
        for index, marks in sorted(self._evidence.marks.items()):
            name = MARKS[index].name
            for seen in marks:
                weight = 0 if name in _ENDS else None  # what only calls itself an error ends nothing
                counts = name not in _ENDS or seen.offset >= self._tail
                if counts and not self.survived(seen, weight):
                    yield name, seen
