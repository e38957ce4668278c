"""Work that may block for ever, in a forked child: what it says until its time is over, then it is killed.

A dead server or a stopped FUSE daemon holds whoever asks it in the kernel, where no signal handler and no
thread's timeout reaches him. A child that even SIGKILL does not end is left behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Generic, NoReturn, Optional, TypeVar

T = TypeVar("T")
PATIENCE = 5.0  # seconds that one look at a file system may take
_SIZE = struct.Struct("=Q")
ITEM, _ERROR, _END = range(3)
_REAP = 0.5  # seconds


class Late(Exception):
    """The time was over, or the work ended without a word, before all was said."""


class Child(Generic[T]):
    """A child that was started to do some work."""

    def __init__(self, work: Callable[[], Iterable[T]]) -> None:
        reading, writing = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if not pid:
            _serve(work, writing)
        os.close(writing)
        self._reading, self._pid = reading, pid

    def items(self, until: float, patience: Optional[float] = None) -> Iterator[T]:
        """What the work yields, as it comes, and then the end of the child."""
        try:
            while True:
                limit = until if patience is None else min(until, time.monotonic() + patience)
                kind, item = received(self._reading, limit)
                if kind == _END:
                    return
                if kind == _ERROR:
                    raise item
                yield item
        finally:
            os.close(self._reading)
            end(self._pid)


def stream(work: Callable[[], Iterable[T]], until: float, patience: Optional[float] = None) -> Iterator[T]:
    """What the work yields in a child, as it comes. `until` is on the steady clock; `patience`: seconds that
    may pass without an item. Late when that is over; an exception of the work is raised here."""
    return Child(work).items(until, patience)


def ask(work: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The one answer of the work; Late when it does not come in that time."""
    for answer in stream(lambda: [work()], time.monotonic() + seconds):
        return answer
    raise Late


def end(pid: int) -> None:
    """Kill a child and wait for its end; one that hangs in the kernel is left behind."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + _REAP
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < until:
            time.sleep(0.001)


def _serve(work: Callable[[], Iterable[Any]], writing: int) -> NoReturn:
    """In the child: send what the work yields, and end."""
    try:
        heed()
        try:
            for item in work():
                send(writing, ITEM, item)
            send(writing, _END, None)
        except Exception as error:
            send(writing, _ERROR, error)
    finally:
        os._exit(0)


def heed() -> None:
    """In a child: what ends a process ends it at once."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def send(writing: int, kind: int, item: object) -> None:
    """Write an item into a pipe, as a whole."""
    content = pickle.dumps((kind, item), pickle.HIGHEST_PROTOCOL)
    left = memoryview(_SIZE.pack(len(content)) + content)
    while left:
        left = left[os.write(writing, left) :]


def received(reading: int, until: float) -> tuple[int, Any]:
    """The next item from a pipe, and of which kind it is; Late at its end, or when the time is over."""
    (size,) = _SIZE.unpack(_bytes(reading, _SIZE.size, until))
    kind, item = pickle.loads(_bytes(reading, size, until))  # noqa: S301  (our own child's)
    return kind, item


def _bytes(reading: int, size: int, until: float) -> bytes:
    parts, left = [], size
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while left:
        wait = until - time.monotonic()
        if wait <= 0 or not poll.poll(min(wait, 1e6) * 1000):
            raise Late
        part = os.read(reading, min(left, 1 << 20))
        if not part:
            raise Late
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
