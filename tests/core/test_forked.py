"""A child answers in time, or is gone; what hangs is left behind and holds nobody."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.trial.refusing import refused_calls, refusing

from npudoctor.core import forked

APART = """
import os, sys
from npudoctor.core.forked import start_apart
with start_apart(["sleep", "60"]) as child:
    print(os.getpgid(child.pid) == child.pid, os.getsid(child.pid) == child.pid)
    os.killpg(child.pid, 9)
try:
    start_apart(["/proc/self/maps"])
except PermissionError as error:
    print(error.errno)
"""


@pytest.mark.parametrize("refused", [False, True])
def test_what_is_started_apart_can_be_killed_as_a_group(refused: bool) -> None:
    """Also in a sandbox that lets nobody start a session."""
    before = refused_calls(refusing("setsid", errno.EPERM)) if refused else ()
    done = subprocess.run([*before, sys.executable, "-c", APART], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["True", str(not refused), str(errno.EACCES)], "")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_an_answer_of_many_parts_is_whole() -> None:
    text = b"x" * (3 << 20) + b"\n"
    pid, reading = forked.start(lambda writing: forked.write(writing, text))
    try:
        assert forked.read_line(reading, time.monotonic() + 30) == text
        assert forked.has_ended(pid, 5)
    finally:
        os.close(reading)


@pytest.mark.parametrize("text", [b"", b"half a line", b"x" * (1 << 20) + b"\n"])
def test_no_line_or_one_beyond_the_limit_is_none(text: bytes) -> None:
    pid, reading = forked.start(lambda writing: forked.write(writing, text))
    try:
        assert forked.read_line(reading, time.monotonic() + 30, limit=1000) is None
    finally:
        os.close(reading)
        forked.end(pid)


def test_what_is_there_is_read_after_the_time_too_and_else_it_is_late() -> None:
    def work(writing: int) -> None:
        forked.write(writing, b"told\n")
        time.sleep(100)

    pid, reading = forked.start(work)
    try:
        time.sleep(0.5)
        assert forked.read_line(reading, time.monotonic() - 1) == b"told\n"
        with pytest.raises(forked.Late):
            forked.read_line(reading, time.monotonic() + 0.2)
        assert not forked.has_ended(pid, 0.01)
    finally:
        os.close(reading)
        forked.end(pid)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_how_a_child_ends() -> None:
    for work, status in ((lambda: None, 0), (lambda: 1 // 0, forked.FAILED), (lambda: os._exit(3), 3)):
        assert os.WEXITSTATUS(os.waitpid(forked.fork(work), 0)[1]) == status


def test_a_child_that_nobody_reads_any_more_ends() -> None:
    """It has no reading end of its own, which would keep a full pipe open for ever."""
    pid, reading = forked.start(lambda writing: forked.write(writing, b"x" * (1 << 20)))
    os.close(reading)
    assert forked.has_ended(pid, 30)


def heedful(writing: int) -> None:
    forked.restore_default_signals()
    forked.write(writing, b"\n")
    time.sleep(100)


def test_what_ends_a_process_ends_a_child_at_once() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        pid, reading = forked.start(heedful)
        assert forked.read_line(reading, time.monotonic() + 30) == b"\n"
        os.close(reading)
        os.kill(pid, signal.SIGTERM)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)


def test_where_no_process_can_be_made_no_pipe_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_fork() -> int:
        raise BlockingIOError(errno.EAGAIN, "no")

    monkeypatch.setattr(os, "fork", no_fork)
    before = descriptors()
    with pytest.raises(BlockingIOError):
        forked.start(lambda writing: None)
    assert descriptors() == before


def test_a_child_that_hangs_or_fails_is_left_behind() -> None:
    started = time.monotonic()
    with pytest.raises(forked.Late):
        forked.ask(lambda: time.sleep(100), 0.2)
    with pytest.raises(forked.Late):
        forked.ask(lambda: os._exit(3))
    with pytest.raises(FileNotFoundError):
        forked.ask(lambda: os.stat("/nowhere"))
    assert list(forked.stream(lambda: iter(range(1000)), math.inf)) == list(range(1000))
    assert time.monotonic() - started < 5
