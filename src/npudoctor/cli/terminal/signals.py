"""Signals that end the program: they become an exception, so that everything is put in order first."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN = 0.001  # seconds
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked us to end. Not an Exception: nothing may handle it on the way."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def signal_behind(error: BaseException) -> Optional[Stopped]:
    """The signal that made this error: before Python 3.12 one that arrives in a __set_name__, while a class
    is made, comes out as a RuntimeError."""
    seen: list[BaseException] = []
    next_one: Optional[BaseException] = error
    while next_one is not None and next_one not in seen:
        if isinstance(next_one, Stopped):
            return next_one
        seen.append(next_one)
        next_one = next_one.__cause__ or next_one.__context__
    return None


def install_handlers() -> None:
    """Raise Stopped in the main thread; what the caller chose to ignore (nohup) stays ignored."""
    sys.unraisablehook = _raise_again
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def keep_child_statuses() -> None:
    """Take an ignored SIGCHLD back: the system would reap our children by itself, and each that failed would
    look like a success. `run` does so later, once it knows what the job is to inherit."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def restore_handlers() -> None:
    """Back to what the system does: the result is out, there is nothing left to put in order."""
    for number in _ENDING:
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL)


def _raise_again(lost: UnraisableHookArgs) -> None:
    """Python drops what is raised in a callback of a weak reference (the import of any module runs one) or in
    __del__, and then the signal would be lost: raise it once more, a moment later."""
    stopped = lost.exc_value
    if not isinstance(stopped, Stopped):
        sys.__unraisablehook__(lost)
        return
    number = stopped.status - 128
    signal.signal(signal.SIGALRM, lambda *_told: _stop(number, None))
    signal.setitimer(signal.ITIMER_REAL, AGAIN)


def _stop(number: int, frame: Optional[FrameType]) -> None:
    for ending in _ENDING:  # the first one counts; a second must not disturb the putting in order
        signal.signal(ending, signal.SIG_IGN)
    raise Stopped(number)
