"""Threads that cannot begin hold nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from npudoctor import Facts, Host, Scope, Severity, Status
from npudoctor.checking.check import Check, CheckOutput
from npudoctor.core import threads
from npudoctor.runner import check_run
from npudoctor.runner.check_run import CheckRun, Workers
from npudoctor.testing import fake_host


def asked(number: int) -> CheckRun:
    def quick(host: Host) -> Iterator[CheckOutput]:
        yield Facts({"asked": True})

    check = Check(f"a{number}", Scope.NODE, {f"a{number}.bad": Severity.ERROR}, quick, "fine")
    return CheckRun(check, lambda until: quick(fake_host()), 10.0, time.monotonic() + 60)


def _none_begins(work: object) -> threading.Event:
    """As where memory runs out before the first line of a thread."""
    return threading.Event()


def test_a_thread_does_its_work_and_is_not_left() -> None:
    told: list[int] = []
    begun = threads.start_thread(lambda: told.append(1))
    assert begun.wait(5)
    until = time.monotonic() + 5
    while threads._running and time.monotonic() < until:
        time.sleep(0.01)
    assert told == [1] and not threads._running


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_work_is_done_where_no_other_thread_starts(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(work: object, arguments: object) -> None:
        raise error

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    left, told = list(range(5)), list[int]()

    def work() -> None:
        while left:
            told.append(left.pop())

    threads.share_work(work, 3)
    assert sorted(told) == [0, 1, 2, 3, 4]
    assert not threads._running


def test_work_that_others_took_is_waited_for() -> None:
    left, told = list(range(6)), list[int]()

    def work() -> None:
        while left:
            number = left.pop()
            time.sleep(0.05)
            told.append(number)

    threads.share_work(work, 3)
    assert sorted(told) == [0, 1, 2, 3, 4, 5]


def test_checks_end_as_unknown_where_no_thread_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_run, "start_thread", _none_begins)
    monkeypatch.setattr(check_run, "THREAD_START_SECONDS", 0.1)
    started = time.monotonic()
    rows = [asked(number) for number in range(3)]
    Workers(rows, fake_host()).drive(started + 60)
    assert time.monotonic() - started < 10
    assert [row.status for row in rows] == [Status.UNKNOWN] * 3
    assert all(row.reason and "ulimit -u or -v" in row.reason for row in rows)


NAMED = """
import threading, time
from npudoctor.core import threads
done = threading.Event()
threads.start_thread(lambda: (threading.current_thread(), done.set()))
done.wait()
until = time.monotonic() + 10
while threads._running and time.monotonic() < until:
    time.sleep(0.01)
print(threads.has_running_threads())
"""


def test_a_thread_that_ended_is_not_left_though_it_asked_who_it_is() -> None:
    """psutil does so when it is imported; the process would end without removing what it unpacked."""
    done = subprocess.run([sys.executable, "-c", NAMED], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")
