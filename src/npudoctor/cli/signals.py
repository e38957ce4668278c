"""Signals that end the program: they become an exception, so that everything is put in order first."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Optional

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked us to end. Not an Exception: nothing may handle it on the way."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def behind(error: BaseException) -> Optional[Stopped]:
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


def listen() -> None:
    """Raise Stopped in the main thread; what the caller chose to ignore (nohup) stays ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def rest() -> None:
    """Back to what the system does: the result is out, there is nothing left to put in order."""
    for number in _ENDING:
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, frame: Optional[FrameType]) -> None:
    for ending in _ENDING:  # the first one counts; a second must not disturb the putting in order
        signal.signal(ending, signal.SIG_IGN)
    raise Stopped(number)
