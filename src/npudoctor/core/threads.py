"""Threads whose start cannot hang, and which do not keep the process from ending.

threading.Thread.start() waits until the new thread reports. A thread that runs out of memory before its first
line (`ulimit -v`) never does, and its starter would wait for ever.
"""

from __future__ import annotations

import _thread
import contextlib
import threading
import time
from typing import Callable

_TURN = 0.1  # seconds
# Tokens, not threads: a thread that was started by _thread has no object.
_running: set[object] = set()


def start_thread(work: Callable[[], None]) -> threading.Event:
    """Run some work in a thread; the event is set by its first line, which may never run.

    RuntimeError, or MemoryError, when no thread can be started.
    """
    begun, token = threading.Event(), object()

    def run() -> None:
        try:
            begun.set()
            work()
        finally:
            _running.discard(token)

    # Before the start: the thread may end before start_new_thread returns.
    _running.add(token)
    try:
        _thread.start_new_thread(run, ())
    # Whatever prevented the start: the token must not keep `has_running_threads` true.
    except BaseException:
        _running.discard(token)
        raise
    return begun


def has_running_threads() -> bool:
    """Return whether a thread besides the calling one may still run and keep the process from ending.

    A daemon keeps none. Python before 3.13 also remembers a finished thread of ours as a daemon for ever,
    once that has asked who it is, as psutil does when it is imported.
    """
    other_threads = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
    return bool(_running) or any(not thread.daemon for thread in other_threads)


def share_work(work: Callable[[], None], most: int) -> None:
    """Do the work here and in other threads, as far as they can be started, so that `most` take part.

    `work` takes items from a shared queue until it is empty; a thread that starts later finds nothing to do.
    Exceptions in the other threads are lost.
    """
    ended: list[tuple[threading.Event, threading.Event]] = []
    for _number in range(most - 1):
        done = threading.Event()
        # With fewer threads the work takes longer, and is done all the same.
        with contextlib.suppress(RuntimeError, MemoryError):
            ended.append((start_thread(lambda done=done: _finally(work, done)), done))  # type: ignore[misc]
    work()
    for begun, done in ended:
        # A thread that never began has nothing in hand; one that began is waited for.
        while begun.is_set() and not done.wait(_TURN):
            pass


def _finally(work: Callable[[], None], done: threading.Event) -> None:
    """Do the work, then set the event. A function of its own, as each thread has its own event."""
    try:
        work()
    finally:
        done.set()


GRACE = 0.5  # seconds by which a deadline may be overrun while answers are gathered
TURN = 0.1  # seconds


def wait(done: threading.Event, until: float) -> None:
    """Wait for an event, at most until a time of the steady clock.

    In short turns: Python runs signal handlers between bytecodes, so that a signal that comes just before a
    wait is handled only after it.
    """
    while not done.is_set() and time.monotonic() < until:
        done.wait(min(TURN, max(0.0, until - time.monotonic())))
