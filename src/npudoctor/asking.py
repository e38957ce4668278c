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


class Asked:
    """What a check said so far, and how it ended once it has. Times are of the steady clock.

    `ask` is given `until`, when the answer must be there.
    """

    def __init__(self, check: Check, ask: Asking, until: float) -> None:
        self.check, self.until = check, until
        self._ask = ask
        self.started = time.monotonic()
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

    def start(self) -> None:
        """Ask it in a thread: a daemon, as one that never comes back must not keep the process."""
        _in_thread(self.check.id, self._listen, [self])

    def _listen(self) -> None:
        """Take its answers; every way it may end is a status."""
        try:
            for answer in self._ask(self.until):
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
        if not asked.check.needs:
            asked.start()
    for late in (False, True):
        waiting = [asked for asked in begun if asked.check.needs and slow(asked.check.needs) is late]
        if waiting:
            _in_thread("needs", partial(_start_fitting, waiting, host), waiting)


def _start_fitting(waiting: Sequence[Asked], host: Host) -> None:
    for asked in waiting:
        try:
            why = missing(asked.check.needs, host)
        except Exception as error:
            asked.end(Status.CRASHED, f"{type(error).__name__}: {_text(error)}".removesuffix(": "))
            continue
        if why is None:
            asked.start()
        else:
            asked.end(Status.SKIPPED, why)


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
