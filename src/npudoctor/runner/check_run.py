"""One run of a check: what it has yielded so far and how it ended; and the threads that run checks."""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Callable, Optional

from npudoctor.checking.check import Check, CheckFailure, CheckOutput, Skip
from npudoctor.checking.needs import needs_interpreter, why_not_applicable
from npudoctor.checking.validation import validate
from npudoctor.core.errors import is_out_of_memory
from npudoctor.core.messages import _, strerror
from npudoctor.core.model import Status
from npudoctor.core.threads import start_thread
from npudoctor.host import CannotTell, Host, NotRunning

AskUntil = Callable[[float], Iterator[CheckOutput]]

TRIAL = "trial"
UNBORN = 4  # started threads that have not reported: starting more would not help
BIRTH = 5.0  # seconds within which the first must have reported
STILL = 0.01  # seconds: a thread that takes no next check for so long is waiting for something


class CheckRun:
    """What a check has yielded so far, and, once it has ended, how. Times are on the steady clock.

    Its `timeout` runs from its turn on, what it needs included; nothing is waited for after `until`.
    `ask`: how it is asked where it runs in a process of its own; it is given when the answer must be there.
    """

    def __init__(self, check: Check, ask: Optional[AskUntil], timeout: float, until: float) -> None:
        self.check, self.timeout, self.until = check, timeout, until
        self._ask = ask
        self.started: Optional[float] = None
        self.answers: list[CheckOutput] = []
        self.done = threading.Event()
        self.status = Status.CRASHED  # until it has ended in another way
        self.reason: Optional[str] = None
        self.advisory = False
        self.tried_by: tuple[str, ...] = ()
        self.ended = 0.0

    def end(self, status: Status, reason: Optional[str] = None, advisory: bool = False) -> None:
        """Note how it ended."""
        self.status, self.reason, self.advisory = status, reason, advisory
        self.ended = time.monotonic()
        self.done.set()

    @property
    def by(self) -> float:
        """When its time is over."""
        return self.until if self.started is None else min(self.started + self.timeout, self.until)

    def take_turn(self, host: Host) -> None:
        """Run it now, in this thread: its time begins. Nothing happens once the whole run is over."""
        now = time.monotonic()
        if now >= self.until:
            return
        self.started = now
        try:  # every way it may end is a status
            why = why_not_applicable(self.check.needs, host)
            if why is not None:
                self.end(Status.SKIPPED, why)
                return
            for answer in self._ask(self.by) if self._ask else self.check.ask(host):
                self.answers.append(validate(self.check, answer))
            self.end(Status.OK)
        except Skip as skip:
            self.end(Status.SKIPPED, _text(skip))
        except NotRunning:
            self.end(Status.SKIPPED, _("an image has no running job"))
        except CannotTell as unknown:
            self.tried_by = tuple(unknown.tried_by)
            self.end(Status.UNKNOWN, _text(unknown), bool(unknown.advisory))
        except CheckFailure as ended:
            self.end(ended.status, _text(ended))
        except BaseException as error:  # a SystemExit in a check is a crash of that check, nothing more
            if is_out_of_memory(error):
                reason = _("out of memory: the limit (ulimit -v, or the container) is too low")
                self.end(Status.UNKNOWN, reason)
            else:
                self.end(Status.CRASHED, f"{type(error).__name__}: {_text(error)}".removesuffix(": "))
        finally:
            self.done.set()


class Workers:
    """Threads that ask one check after the other.

    Most checks take no time, and a thread for each costs more than they do: one thread asks them all, and
    whenever it stands still, another goes on with the rest. What asks the interpreter comes last. What is
    tried is tried one at a time: its time begins with its turn, and no thread waits for that.
    """

    def __init__(self, begun: Sequence[CheckRun], host: Host) -> None:
        # What needs nothing first, what needs the interpreter last.
        order = {run.check.id: bool(run.check.needs) + needs_interpreter(run.check.needs) for run in begun}
        self._left = deque(sorted(begun, key=lambda run: order[run.check.id]))
        self._host = host
        self._taken = 0
        self._trying = threading.Lock()
        self._threads: list[threading.Event] = []  # each is set once its thread has begun
        self._since = time.monotonic()
        self._more()

    def drive(self, until: float) -> None:
        """Add threads until every check had its turn, or the time is over."""
        while self._left and time.monotonic() < until:
            before = self._taken
            time.sleep(STILL)
            if self._taken == before and self._can_go_on():
                self._more()

    def _can_go_on(self) -> bool:
        """Whether another thread would find something to do."""
        left = tuple(self._left)
        return bool(left) and (not self._trying.locked() or any(run.check.group != TRIAL for run in left))

    def _more(self) -> None:
        unborn = sum(not begun.is_set() for begun in self._threads)
        if unborn < UNBORN:
            try:
                self._threads.append(start_thread(self._work))
            except (RuntimeError, MemoryError) as error:  # the machine has no room for another thread
                if not self._threads:
                    self._give_up(_text(error))
        elif unborn == len(self._threads) and time.monotonic() > self._since + BIRTH:
            self._give_up(strerror(errno.ENOMEM))

    def _give_up(self, why: str) -> None:
        """No thread will ever ask what is left."""
        while self._left:
            with suppress(IndexError):  # one was late, and took it
                run = self._left.popleft()
                # It keeps its time by itself, and says who refuses the job threads.
                if run.check.group == TRIAL:
                    run.take_turn(self._host)
                if not run.done.is_set() or run.status is Status.CRASHED:
                    run.end(
                        Status.UNKNOWN,
                        _("cannot start a thread (limited by ulimit -u or -v): {why}", why=why),
                    )

    def _work(self) -> None:
        while True:
            try:
                run = self._left.popleft()
            except IndexError:
                return
            tried = run.check.group == TRIAL
            if tried and not self._trying.acquire(blocking=False):
                self._left.append(run)
                if self._can_go_on():
                    continue
                return  # whoever tries another one takes it next
            self._taken += 1
            try:
                run.take_turn(self._host)
            finally:
                if tried:
                    self._trying.release()


def _text(error: BaseException) -> str:
    """What an exception says; a plug-in's may fail at that too."""
    try:
        return str(error)
    except Exception:
        return ""
