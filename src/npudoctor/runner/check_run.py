"""One run of a check (its output so far and how it ended), and the threads that run checks."""

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
# Threads that were started and do not run yet. With this many, the machine cannot run another one now.
MOST_UNSTARTED = 4
THREAD_START_SECONDS = 5.0  # seconds within which the first thread must run
IDLE_SECONDS = 0.01  # seconds without a next check after which a thread counts as blocked


class CheckRun:
    """The output of a check so far and, once it has ended, its status. Times are on the monotonic clock.

    `timeout`: seconds from its turn on, including the time for what it needs; `until`: when the whole run
    ends. `ask`: yields the output of a check in a process of its own, until the time that it is given; None
    for a built-in check.
    """

    def __init__(self, check: Check, ask: Optional[AskUntil], timeout: float, until: float) -> None:
        self.check, self.timeout, self.until = check, timeout, until
        self._ask = ask
        self.started: Optional[float] = None
        self.answers: list[CheckOutput] = []
        self.done = threading.Event()
        self.status = Status.CRASHED  # unless `end` sets another one
        self.reason: Optional[str] = None
        self.advisory = False
        self.tried_by: tuple[str, ...] = ()
        self.ended = 0.0

    def end(self, status: Status, reason: Optional[str] = None, advisory: bool = False) -> None:
        """Set the status, and wake who waits for it. `advisory`: the verdict does not need an answer of
        it."""
        self.status, self.reason, self.advisory = status, reason, advisory
        self.ended = time.monotonic()
        self.done.set()

    @property
    def due_at(self) -> float:
        """The time on the monotonic clock when its time is over."""
        return self.until if self.started is None else min(self.started + self.timeout, self.until)

    def take_turn(self, host: Host) -> None:
        """Run it in this thread, starting its timeout. Does nothing once the whole run is over."""
        now = time.monotonic()
        if now >= self.until:
            return
        self.started = now
        try:  # every way in which it may end becomes a status
            why = why_not_applicable(self.check.needs, host)
            if why is not None:
                self.end(Status.SKIPPED, why)
                return
            for answer in self._ask(self.due_at) if self._ask else self.check.ask(host):
                self.answers.append(validate(self.check, answer))
            self.end(Status.OK)
        except Skip as skip:
            self.end(Status.SKIPPED, _error_text(skip))
        except NotRunning:
            self.end(Status.SKIPPED, _("an image is not running"))
        except CannotTell as unknown:
            self.tried_by = tuple(unknown.tried_by)
            self.end(Status.UNKNOWN, _error_text(unknown), bool(unknown.advisory))
        except CheckFailure as ended:
            self.end(ended.status, _error_text(ended))
        except BaseException as error:  # SystemExit in a check is a crash of that check only
            if is_out_of_memory(error):
                reason = _("out of memory: the limit (ulimit -v, or the container) is too low")
                self.end(Status.UNKNOWN, reason)
            else:
                self.end(Status.CRASHED, f"{type(error).__name__}: {_error_text(error)}".removesuffix(": "))
        finally:
            self.done.set()


class Workers:
    """Threads that run one check after the other.

    Most checks take less time than starting a thread: one thread runs them all, and whenever it blocks,
    another one continues with the rest. Checks that need the interpreter come last. Trials run one at a time,
    as they would disturb each other; no thread waits for its turn.
    """

    def __init__(self, runs: Sequence[CheckRun], host: Host) -> None:
        # 0: needs nothing, 1: needs files or variables, 2: needs the interpreter, which takes seconds to
        # answer.
        order = {run.check.id: bool(run.check.needs) + needs_interpreter(run.check.needs) for run in runs}
        self._pending = deque(sorted(runs, key=lambda run: order[run.check.id]))
        self._host = host
        self._turns = 0
        self._trial_lock = threading.Lock()
        self._all_taken = threading.Lock()  # free once no check was left to take
        self._all_taken.acquire()
        self._threads: list[threading.Event] = []  # each is set once its thread has begun
        self._started_at = time.monotonic()
        self._add_thread()

    def drive(self, until: float) -> None:
        """Add a thread whenever all are blocked, until every check had its turn or the time is over."""
        while self._pending and time.monotonic() < until:
            turns_before = self._turns
            woken = self._all_taken.acquire(timeout=IDLE_SECONDS)
            if not woken and self._turns == turns_before and self._has_runnable():
                self._add_thread()

    def _has_runnable(self) -> bool:
        """Whether another thread would find a check that it may run."""
        pending = tuple(self._pending)
        return bool(pending) and (
            not self._trial_lock.locked() or any(run.check.group != TRIAL for run in pending)
        )

    def _add_thread(self) -> None:
        unstarted = sum(not has_begun.is_set() for has_begun in self._threads)
        if unstarted < MOST_UNSTARTED:
            try:
                self._threads.append(start_thread(self._run_checks))
            except (RuntimeError, MemoryError) as error:  # ulimit -u or -v, or pids.max of the container
                if not self._threads:
                    self._give_up(_error_text(error))
        elif unstarted == len(self._threads) and time.monotonic() > self._started_at + THREAD_START_SECONDS:
            self._give_up(strerror(errno.ENOMEM))

    def _give_up(self, why: str) -> None:
        """End the pending checks as unknown: no thread can be started to run them."""
        while self._pending:
            with suppress(IndexError):  # a late thread took the last one
                run = self._pending.popleft()
                # A trial limits its time itself, and reports why the job would get no threads either.
                if run.check.group == TRIAL:
                    run.take_turn(self._host)
                if not run.done.is_set() or run.status is Status.CRASHED:
                    run.end(
                        Status.UNKNOWN,
                        _("cannot start a thread (limited by ulimit -u or -v): {why}", why=why),
                    )

    def _run_checks(self) -> None:
        while True:
            try:
                run = self._pending.popleft()
            except IndexError:
                with suppress(RuntimeError):  # another thread was first
                    self._all_taken.release()
                return
            is_trial = run.check.group == TRIAL
            if is_trial and not self._trial_lock.acquire(blocking=False):
                self._pending.append(run)
                if self._has_runnable():
                    continue
                return  # the thread that holds the lock takes it next
            # Not locked: `drive` only compares it with its earlier value.
            self._turns += 1
            try:
                run.take_turn(self._host)
            finally:
                if is_trial:
                    self._trial_lock.release()


def _error_text(error: BaseException) -> str:
    """The message of an exception; "" when its own __str__ fails, as a plug-in's may."""
    try:
        return str(error)
    except Exception:
        return ""
