"""The one place that forks: a child that does some work, and answers over a pipe until its time is over.

A dead server or a stopped FUSE daemon holds whoever asks it in the kernel, where no signal handler and no
thread's timeout reaches him. So a child asks. It is killed when its time is over, and one that even SIGKILL
does not end, in state D, is left behind. What stays for a whole run is forked before the first thread is
started: in a child, a lock that another thread held is held for ever. Programs are started by `subprocess`.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, Generic, NamedTuple, Optional, TypeVar

from npudoctor.core.descriptors import wait_until_ready
from npudoctor.core.threads import TURN

if TYPE_CHECKING:
    import subprocess

T = TypeVar("T")
PATIENCE = 5.0  # seconds that one look at a file system may take
# EX_SOFTWARE of sysexits.h: no shell and no signal makes this status.
FAILED = 70  # exit status of a child whose work raised
# Kinds of messages from a child: an item, the exception of its work, the end.
ITEM, _ERROR, _END = range(3)
# The length stands before each pickle: a pipe has no message boundaries.
_SIZE = struct.Struct("=Q")
_PIECE = 1 << 20
_REAP = 0.5  # seconds to wait for a child that was killed; in state D it does not end at all


def start_apart(argv: Sequence[str], **words: Any) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; where a sandbox refuses setsid(2), in a process group of its
    own, by which it can be killed as well.
    """
    import subprocess

    try:
        return subprocess.Popen(argv, start_new_session=True, **words)
    # setsid(2) fails with EPERM in a process group leader and in sandboxes whose seccomp filter answers so.
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
    return subprocess.Popen(argv, preexec_fn=os.setpgrp, **words)


class Late(Exception):
    """The time was over, or the work ended without an answer, before all items arrived."""


class Started(NamedTuple):
    """A child that was started, and the end of the pipe from which its answer is read."""

    pid: int
    reading: int


def fork(work: Callable[[], object]) -> int:
    """Run some work in a child and return its pid. The child ends with the work and runs no exit handlers of
    ours.
    """
    pid = os.fork()
    if pid:
        return pid
    status = FAILED
    try:
        work()
        status = 0
    finally:
        # exit handlers, buffers and threads of the parent were copied by fork(): os._exit skips them.
        os._exit(status)


def start(work: Callable[[int], object]) -> Started:
    """Run some work in a child that answers: it receives the end of a pipe into which it writes.

    OSError where no process can be made. The caller closes its own end, and calls `end`.
    """
    reading, writing = os.pipe()

    def answer() -> None:
        os.close(reading)  # so that a child whose parent was killed meets a broken pipe, and not a full one
        work(writing)

    try:
        pid = fork(answer)
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    os.close(writing)
    return Started(pid, reading)


def restore_default_signals() -> None:
    """In a child: let SIGINT, SIGTERM and SIGHUP end the process at once, whatever handlers the parent
    had.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def end(pid: int) -> None:
    """Kill a child and wait for its end; one that hangs in the kernel is left behind."""
    # It ended by itself, or somebody else has waited for it.
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        has_ended(pid, _REAP)


def has_ended(pid: int, seconds: float) -> bool:
    """Return whether a child ends within some seconds. ChildProcessError where it was already waited for."""
    until = time.monotonic() + seconds
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > until:
            return False
        # waitpid() has no timeout, and pidfd_open(2) needs Linux 5.3 and Python 3.9 with new headers.
        time.sleep(0.001)
    return True


def write(writing: int, content: bytes) -> None:
    """Write all of the content into a pipe, however many calls that takes."""
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(writing, remaining) :]


def read_line(reading: int, until: float = math.inf, limit: float = math.inf) -> Optional[bytes]:
    """Read up to the end of a line; None when the pipe ends before, or more than `limit` bytes come.

    Late when the steady clock passes `until`. What is there already is read even then: other children may
    have used up the time.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        part = _part(reading, 1 << 16, until)
        if not part or len(line) > limit:
            return None
        line += part
    return bytes(line)


def _part(reading: int, size: int, until: float) -> bytes:
    """The next bytes, none at the end. It waits in short turns: a signal that comes just before a wait is
    handled only after it.
    """
    while True:
        seconds = max(0.0, until - time.monotonic())
        if wait_until_ready(reading, min(TURN, seconds)):
            return os.read(reading, size)
        if not seconds:
            raise Late


class Child(Generic[T]):
    """A child that yields items, which are pickled."""

    def __init__(self, work: Callable[[], Iterable[T]]) -> None:
        import pickle  # noqa: F401  (before the fork: both sides need it)

        self._started = start(lambda writing: _serve(work, writing))

    def items(self, until: float, patience: Optional[float] = None) -> Iterator[T]:
        """Yield what the work yields, as it comes; then end the child. `until` and `patience` as in
        `stream`.
        """
        try:
            while True:
                limit = until if patience is None else min(until, time.monotonic() + patience)
                kind, item = receive(self._started.reading, limit)
                if kind == _END:
                    return
                if kind == _ERROR:
                    raise item
                yield item
        finally:
            os.close(self._started.reading)
            end(self._started.pid)


def stream(work: Callable[[], Iterable[T]], until: float, patience: Optional[float] = None) -> Iterator[T]:
    """Yield what the work yields in a child, as it comes.

    `until`: a time of the steady clock. `patience`: seconds that may pass without an item. Late when either
    is over; an exception of the work is raised here.
    """
    return Child(work).items(until, patience)


def ask(work: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The one answer of the work; Late when it does not come within these seconds."""
    for answer in stream(lambda: [work()], time.monotonic() + seconds):
        return answer
    raise Late


def _serve(work: Callable[[], Iterable[Any]], writing: int) -> None:
    """In the child: send what the work yields."""
    restore_default_signals()
    try:
        for item in work():
            send(writing, ITEM, item)
        send(writing, _END, None)
    # The parent raises it in the place of the answer.
    except Exception as error:
        send(writing, _ERROR, error)


def send(writing: int, kind: int, item: object) -> None:
    """Write one item into a pipe."""
    import pickle  # what only reads lines of a child runs where hardly any of the library can be read

    content = pickle.dumps((kind, item), pickle.HIGHEST_PROTOCOL)
    write(writing, _SIZE.pack(len(content)) + content)


def receive(reading: int, until: float) -> tuple[int, Any]:
    """The next item from a pipe and its kind, as (kind, item); Late at its end, or when the time is over."""
    import pickle

    (size,) = _SIZE.unpack(_bytes(reading, _SIZE.size, until))
    kind, item = pickle.loads(_bytes(reading, size, until))  # noqa: S301  (our own child's)
    return kind, item


def _bytes(reading: int, size: int, until: float) -> bytes:
    parts, missing = [], size
    while missing:
        # Also where data keeps coming: a child that never ends its item must not hold us.
        if time.monotonic() >= until:
            raise Late
        part = _part(reading, min(missing, _PIECE), until)
        if not part:
            raise Late
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
