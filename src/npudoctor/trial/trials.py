"""Starts a part of the trial in a child of the job's interpreter, and reads what it says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Protocol

from npudoctor.core.errors import CannotTell, DoesNotRun
from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.messages import _, strerror
from npudoctor.core.parsing import json_of

# Read as text, since the child is another Python, without npudoctor.
PARTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parts")
OURS = "from npudoctor."  # by which a part names what another has; in the child that stands before
SECONDS = 8.0  # that a part may take
LEAST = 0.5  # seconds: with less left nothing is begun
MARGIN = 0.5  # seconds of the run that are left after the last part
# Bytes; a trial writes some kilobytes, start-up code of the job may write more.
OUTPUT_LIMIT = 1 << 20


class ProgramResult(Protocol):
    """How a program ended, as host.process.commands.Answer says it."""

    @property
    def ended(self) -> str: ...
    @property
    def status(self) -> Optional[int]: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...


@dataclass(frozen=True)
class Attempt:
    """One thing that was asked of the kernel. `what`: its name.

    `number`: the errno of what refused it, 0 where it was granted. `why`: what the system or a library says.
    `facts`: what else is known of it.
    """

    what: str
    number: int = 0
    why: str = ""
    seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """The reason for a sentence: the system's words in the language spoken now, a library's as
        they are.
        """
        # A library may give its own text with an errno: that says more than the system's.
        if self.number > 0 and self.why in ("", os.strerror(self.number)):
            return strerror(self.number)
        return f"`{self.why}`"

    @property
    def refused(self) -> bool:
        """Whether the kernel, or a library, refused it."""
        return bool(self.number or self.why)


@dataclass(frozen=True)
class Trial:
    """What came of one part, in the order of its attempts.

    `hung`: the attempt in which it was when its time was over; `died`: the one in which it was ended, and
    `signal` by which, 0 for an exit. Both are None where it came to its end. `last_line`: its last line
    about an error. `waits_for`: of one that hangs before its first line, the file system that is silent.
    """

    attempts: tuple[Attempt, ...] = ()
    hung: Optional[str] = None
    died: Optional[str] = None
    signal: int = 0
    last_line: str = ""
    waits_for: str = ""

    def refused(self) -> list[Attempt]:
        """The attempts that were refused, in order."""
        return [attempt for attempt in self.attempts if attempt.refused]

    def facts(self) -> dict[str, Any]:
        """All facts of all attempts."""
        return {name: value for attempt in self.attempts for name, value in attempt.facts.items()}


class Trials:
    """The parts of the trial on one machine.

    `start`: starts a program as the job would be started; `why_not`: why nothing is tried here, None where it
    may be; `limits`: the job's where they are not ours, as kind, soft, hard; `program`: the job's Python;
    `until`: when the run is over, on the steady clock; `folder`: where the child goes by its own rights, None
    where it is started there; `silent`: why a Python may wait before its first line, "" where nothing is
    known for which it would.
    """

    def __init__(
        self,
        start: Callable[[Sequence[str], float], ProgramResult],
        why_not: Callable[[], Optional[str]],
        limits: Callable[[], Sequence[tuple[int, int, int]]],
        program: Callable[[], str],
        until: float,
        folder: Callable[[], Optional[str]] = lambda: None,
        silent: Callable[[], str] = lambda: "",
    ) -> None:
        self._start, self._why_not, self._limits, self._folder = start, why_not, limits, folder
        self._program, self._until = program, until
        self._silent, self._waits_for = silent, ""

    def why_not(self) -> Optional[str]:
        """Why nothing is tried here; None where it may be."""
        return self._why_not()

    def try_part(self, part: str, **questions: object) -> Trial:
        """Run one part and return what came of it; the runner lets one part run at a time. CannotTell where
        it could not be started.
        """
        if self._waits_for:  # each would wait as long, and leave another process behind that waits
            return Trial(hung="", waits_for=self._waits_for)
        program, source = self._program(), read_source(part)
        seconds = min(SECONDS, self._until - MARGIN - time.monotonic())
        if seconds < LEAST:
            raise CannotTell(_("the deadline of the run was reached first"))
        prefix = os.urandom(8).hex()
        questions_json = json.dumps({
            **questions,
            "prefix": prefix,
            # It ends by itself even where whoever started it was killed.
            "seconds": int(seconds) + 2,
            "limits": self._limits(),
            "folder": self._folder(),
        })  # fmt: skip
        answer = self._start([program, "-c", source, questions_json], seconds)
        if answer.ended in ("missing", "untrusted", "not-started"):
            why = answer.stderr or answer.ended
            reason = _("{python} was not started: {why}", python=program, why=why)
            # That root must not start it says nothing about the job's Python.
            if answer.ended == "untrusted":
                raise CannotTell(reason)
            # 127 is the shell's status for a program that is not found.
            raise DoesNotRun(reason, answer.status or 127, answer.stderr)
        trial = parse_output(answer, prefix)
        # It hung before its first line: in Python's own start, not in an attempt.
        if trial.hung == "":
            self._waits_for = self._silent()
        return replace(trial, waits_for=self._waits_for)


def read_source(part: str) -> str:
    """The source of a part as one script: first what it takes from other parts, each once."""
    sources: dict[str, str] = {}

    def add(name: str) -> None:
        with open(f"{PARTS}/{name}.py", encoding="utf-8") as file:
            lines = file.readlines()
        for line in lines:
            if line.startswith(OURS) and (other := line.split()[1].rpartition(".")[2]) not in sources:
                add(other)
        sources[name] = "".join(line for line in lines if not line.startswith(OURS))

    add(part)
    return "".join(sources.values())


def parse_output(answer: ProgramResult, prefix: str = "") -> Trial:
    """Read the lines of the child: {"try": ...} before each attempt, then its result, then {"end": true}.

    A line that does not begin with the prefix was not written by us.
    """
    attempts: list[Attempt] = []
    # "": before the first attempt; None: after the last.
    current: Optional[str] = ""
    for line in answer.stdout.splitlines():
        if not line.startswith(prefix):
            continue
        try:
            words = json_of(line[len(prefix) :])
        except ValueError:
            continue  # the last one of a child that was killed
        if not isinstance(words, dict):
            continue
        if "try" in words:
            current = str(words["try"])
        elif "end" in words:
            current = None
        elif "what" in words:
            attempts.append(Attempt(**words))
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    # Below the line that matters an interpreter that does not start says where it was.
    last_line = next((line for line in reversed(lines) if "Error" in line), "".join(lines[-1:]))
    if current is None:
        return Trial(tuple(attempts), last_line=last_line)
    if answer.ended != "exited":
        return Trial(tuple(attempts), hung=current, last_line=last_line)
    return Trial(tuple(attempts), died=current, signal=max(0, -(answer.status or 0)), last_line=last_line)
