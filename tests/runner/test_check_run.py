"""A check's time begins with its turn; what one slow need delays is not told to have given no answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from npudoctor import Facts, Host, Scope, Severity, Status
from npudoctor.checking import needs
from npudoctor.checking.check import Check, CheckOutput
from npudoctor.core.model import Result
from npudoctor.core.once import Once
from npudoctor.core.threads import GRACE
from npudoctor.host import CannotTell
from npudoctor.host.host import _HostPart
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner import check_run
from npudoctor.runner.runner import Settings, run
from npudoctor.testing import fake_host


def quick(host: Host) -> Iterator[CheckOutput]:
    yield Facts({"asked": True})


def made(id: str, *needs: str) -> Check:
    return Check(id, Scope.NODE, {f"{id}.bad": Severity.ERROR}, quick, f"{id} is fine", needs=needs)


def rows(*checks: Check, **settings: Any) -> tuple[dict[str, Result], float]:
    started = time.monotonic()
    report = run(LoadedChecks(checks, (), {}), fake_host(variables={"HERE": "1"}), Settings(**settings))
    return {row.check: row for row in report.results}, time.monotonic() - started


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The need "cann" that is not answered before the test ends."""
    release = threading.Event()
    monkeypatch.setitem(needs.THINGS, "cann", lambda host: release.wait(20))
    yield
    release.set()


@pytest.mark.usefixtures("hung")
def test_a_need_that_hangs_delays_nobody_else() -> None:
    found, took = rows(made("a", "cann"), made("b", "$HERE"), made("c", "driver"), timeout=0.8)
    assert (found["a"].status, found["a"].reason) == (
        Status.TIMEOUT,
        "no result within 0.8 s; the check was abandoned",
    )
    assert (found["b"].status, found["c"].status) == (Status.OK, Status.SKIPPED)
    assert took < 0.8 + GRACE + 1.0


@pytest.mark.usefixtures("hung")
def test_who_asks_for_nothing_that_hangs_is_answered_before_the_deadline() -> None:
    found, _took = rows(made("a", "cann"), made("b", "$HERE"), deadline=0.2)
    assert found["a"].reason == "no result within 0.2 s; the check was abandoned"
    assert found["b"].status is Status.OK


def test_ten_that_wait_wait_side_by_side() -> None:
    def waiting(host: Host) -> Iterator[CheckOutput]:
        time.sleep(0.3)
        yield Facts({})

    checks = [replace(made(f"a{number}"), ask=waiting) for number in range(10)]
    found, took = rows(*checks)
    assert {row.status for row in found.values()} == {Status.OK}
    assert took < 1.5


def test_one_whose_turn_never_came_says_so() -> None:
    found, _took = rows(made("b"), deadline=-1.0)
    assert (found["b"].status, found["b"].reason) == (
        Status.TIMEOUT,
        "the deadline passed before the check started",
    )
    assert found["b"].seconds == 0


def test_a_slow_need_leaves_the_others_their_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(host: Host) -> bool:
        time.sleep(0.4)
        return True

    monkeypatch.setitem(needs.THINGS, "cann", slow)
    found, _took = rows(made("a", "cann"), made("b", "$HERE"), timeout=0.45)
    assert {row.status for row in found.values()} == {Status.OK}
    assert found["a"].seconds >= 0.4 > found["b"].seconds


def test_what_could_not_be_told_is_not_asked_again() -> None:
    asked = []

    def ask() -> int:
        asked.append(time.monotonic())
        time.sleep(0.05)
        raise CannotTell("it hangs")

    fact, told = Once(ask), []

    def listen() -> None:
        with pytest.raises(CannotTell, match="it hangs"):
            fact()
        told.append(True)

    threads = [threading.Thread(target=listen) for _number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(asked), len(told)) == (1, 5)


def test_an_error_of_ours_is_not_kept() -> None:
    answers = [ValueError("first"), None]

    def ask() -> int:
        error = answers.pop(0)
        if error:
            raise error
        return 5

    fact = Once(ask)
    with pytest.raises(ValueError, match="first"):
        fact()
    assert (fact(), fact()) == (5, 5)


def test_one_part_of_a_host_does_not_wait_for_another() -> None:
    release, begun = threading.Event(), threading.Event()

    def answer(host: Host) -> int:
        begun.set()
        release.wait(10)
        return 1

    class Slow(Host):
        slow = _HostPart(answer)
        fast = _HostPart(lambda host: 2)

    host = Slow(variables={})
    thread = threading.Thread(target=lambda: host.slow)
    thread.start()
    begun.wait(5)
    started = time.monotonic()
    assert host.fast == 2 and time.monotonic() - started < 5
    release.set()
    thread.join()
    assert host.slow == 1


def test_an_interpreter_that_hangs_is_asked_once_for_all() -> None:
    from npudoctor.host.process.commands import CommandResult as Told
    from npudoctor.host.python.interpreter import Interpreter
    from npudoctor.host.variables import Variables
    from npudoctor.testing import FakeCommands

    commands = FakeCommands({"python3": Told((), "timeout")})
    python = Interpreter(
        "/usr/bin/python3",
        "path",
        files=fake_host().files,
        commands=commands,
        variables=Variables({}),
        as_root=False,
    )
    for name in ("torch", "numpy", "te"):
        with pytest.raises(CannotTell, match="does not answer: timeout"):
            python.distributions(name)
    assert len(commands.asked) == 1


def test_where_no_thread_starts_the_trial_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs none itself, and its time is bounded; all other rows cannot tell."""

    def refused(work: object) -> threading.Event:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(check_run, "start_thread", refused)
    found, _took = rows(replace(made("b"), group="trial"), made("a"))
    assert found["b"].status is Status.OK
    assert found["a"].status is Status.UNKNOWN and "can't start new thread" in (found["a"].reason or "")
