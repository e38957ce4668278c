"""One check being asked in a thread of its own: what it has said so far, and how it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Callable, Optional

from npudoctor.checking import Answer, Check, Crashed, NoAnswer, NotLoaded, Skip
from npudoctor.host import CannotTell, Host, NotRunning
from npudoctor.messages import _
from npudoctor.model import Status
from npudoctor.needs import missing, slow
from npudoctor.stamping import stamped

Asking = Callable[[float], Iterator[Answer]]

PATIENCE = 0.5  # how long the needs of others may keep a check from its turn
STEP = 0.005


class Asked:
    """What a check said so far, and how it ended once it has. Times are of the steady clock.

    Its `timeout` runs from its turn on, what it needs included; nothing is waited for after `until`.
    `ask` is given when the answer must be there.
    """

    def __init__(self, check: Check, ask: Asking, timeout: float, until: float) -> None:
        self.check, self.until = check, until
        self._ask, self._timeout = ask, timeout
        self.started: Optional[float] = None
        self._turn = threading.Lock()
        self.answers: list[Answer] = []
        self.done = threading.Event()
        self.status = Status.CRASHED  # until it has said how it ended
        self.reason: Optional[str] = None
        self.advisory = False
        self.ended = 0.0

    def end(self, status: Status, reason: Optional[str] = None, advisory: bool = False) -> None:
        """Note how it ended."""
        self.status, self.reason, self.advisory = status, reason, advisory
        self.ended = time.monotonic()
        self.done.set()

    @property
    def by(self) -> float:
        """When its time is over."""
        return self.until if self.started is None else min(self.started + self._timeout, self.until)

    def turn(self) -> bool:
        """Whether whoever calls this is the first to look at it: its time begins."""
        if not self._turn.acquire(blocking=False):
            return False
        self.started = time.monotonic()
        return True

    def start(self) -> None:
        """Ask it in a thread: a daemon, as one that never comes back must not keep the process."""
        _in_thread(self.check.id, self._listen, [self])

    def fits(self, host: Host) -> bool:
        """Whether what it needs is here; else that is how it ended."""
        try:
            why = missing(self.check.needs, host)
        except Exception as error:
            self.end(Status.CRASHED, f"{type(error).__name__}: {_text(error)}".removesuffix(": "))
            return False
        if why is not None:
            self.end(Status.SKIPPED, why)
        return why is None

    def listen_if_it_fits(self, host: Host) -> None:
        """Both, in the thread of the caller."""
        if self.fits(host):
            self._listen()

    def _listen(self) -> None:
        """Take its answers; every way it may end is a status."""
        try:
            for answer in self._ask(self.by):
                self.answers.append(stamped(self.check, answer))
            self.end(Status.OK)
        except Skip as skip:
            self.end(Status.SKIPPED, _text(skip))
        except NotRunning:
            self.end(Status.SKIPPED, _("an image is not running"))
        except CannotTell as unknown:
            self.end(Status.UNKNOWN, _text(unknown), bool(unknown.advisory))
        except NoAnswer:
            self.end(Status.TIMEOUT, _("no answer in time; its process was ended"))
        except NotLoaded as broken:
            self.end(Status.BROKEN, _text(broken))
        except Crashed as crash:
            self.end(Status.CRASHED, _text(crash))
        except BaseException as error:  # a SystemExit in a check is a crash of that check, nothing more
            self.end(Status.CRASHED, f"{type(error).__name__}: {_text(error)}".removesuffix(": "))
        finally:
            self.done.set()


def start(begun: Sequence[Asked], host: Host) -> None:
    """Start those that need nothing; the others once it is known that what they need is here.

    Two threads find that out, as one question, of the interpreter, takes longer than all others.
    """
    for asked in begun:
        if not asked.check.needs and asked.turn():
            asked.start()
    for late in (False, True):
        waiting = [asked for asked in begun if asked.check.needs and slow(asked.check.needs) is late]
        if waiting:
            _in_thread("needs", partial(_start_fitting, waiting, host), waiting)


def hurry(begun: Sequence[Asked], host: Host, until: float) -> None:
    """What one slow need keeps from being looked at gets a thread of its own."""
    until = min(time.monotonic() + PATIENCE, until)
    for asked in begun:
        while asked.started is None and not asked.done.is_set() and time.monotonic() < until:
            time.sleep(STEP)
    for asked in begun:
        if time.monotonic() < asked.until and not asked.done.is_set() and asked.turn():
            _in_thread(asked.check.id, partial(asked.listen_if_it_fits, host), [asked])


def _start_fitting(waiting: Sequence[Asked], host: Host) -> None:
    for asked in waiting:
        if asked.turn() and asked.fits(host):
            asked.start()


def _in_thread(name: str, run: Callable[[], None], concerned: Sequence[Asked]) -> None:
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:  # the machine has no room for another thread
        for asked in concerned:
            asked.end(Status.CRASHED, str(error))


def _text(error: BaseException) -> str:
    """What an exception says; a plug-in's may fail at that too."""
    try:
        return str(error)
    except Exception:
        return ""
