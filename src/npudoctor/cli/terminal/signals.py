"""Turns signals that end the program into an exception, so that everything is cleaned up first."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

RAISE_AGAIN_SECONDS = 0.001  # seconds until a lost signal is raised once more
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedBySignal(BaseException):
    """A signal asked npudoctor to end. A BaseException, so that no `except Exception` catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def find_signal(error: BaseException) -> Optional[StoppedBySignal]:
    """The StoppedBySignal in the chain of causes of an exception; None when there is none.

    Before Python 3.12 an exception in __set_name__, while a class is created, is wrapped into a RuntimeError.
    """
    visited: list[BaseException] = []
    current: Optional[BaseException] = error
    while current is not None and current not in visited:
        if isinstance(current, StoppedBySignal):
            return current
        visited.append(current)
        current = current.__cause__ or current.__context__
    return None


def install_handlers() -> None:
    """Make ending signals raise StoppedBySignal in the main thread; those that the caller ignores (nohup)
    stay so."""
    sys.unraisablehook = _raise_again
    for number in _ENDING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def keep_child_statuses() -> None:
    """Restore the default of an ignored SIGCHLD: the kernel would reap children itself, their status would be
    lost, and a failed program would look successful. `run` does it later, as the job inherits the setting."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def restore_handlers() -> None:
    """Restore the default actions: the result is written, and nothing is left to clean up."""
    for number in _ENDING_SIGNALS:
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL)


def _raise_again(lost: UnraisableHookArgs) -> None:
    """Raise a lost StoppedBySignal once more, a moment later.

    Python discards exceptions in weak reference callbacks (every import runs one) and in __del__, so that the
    signal would be lost.
    """
    stopped = lost.exc_value
    if not isinstance(stopped, StoppedBySignal):
        sys.__unraisablehook__(lost)
        return
    number = stopped.status - 128
    signal.signal(signal.SIGALRM, lambda *_told: _stop(number, None))
    signal.setitimer(signal.ITIMER_REAL, RAISE_AGAIN_SECONDS)


def _stop(number: int, frame: Optional[FrameType]) -> None:
    for ending in _ENDING_SIGNALS:  # only the first counts: a second one must not interrupt the cleanup
        signal.signal(ending, signal.SIG_IGN)
    raise StoppedBySignal(number)
