"""Every ending of a check is a row; deadlines hold; one check never disturbs another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

import pytest

from npudoctor import Facts, Finding, Fix, Host, Scope, Severity, Skip, Status, Unknown
from npudoctor.checking.check import Check, CheckOutput
from npudoctor.core.model import Report, Result, Verdict
from npudoctor.core.threads import GRACE
from npudoctor.host import NotRunning
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner.runner import Settings, run
from npudoctor.testing import fake_host

if TYPE_CHECKING:
    from npudoctor.checking.check import CheckFunction

CODES = {"bad": Severity.ERROR, "odd": Severity.WARNING, "note": Severity.INFO}


def made(id: str, ask: CheckFunction, scope: Scope = Scope.NODE, **more: Any) -> Check:
    """A check with the codes ID.bad, ID.odd and ID.note."""
    codes = {f"{id}.{word}": severity for word, severity in CODES.items()}
    return Check(id, scope, codes, ask, f"{id} is fine", group="group", **more)


def saying(*answers: object, then: BaseException | None = None) -> CheckFunction:
    """A question that is answered so, and may end with an exception."""

    def ask(host: Host) -> Iterator[CheckOutput]:
        yield from answers  # type: ignore[misc]
        if then is not None:
            raise then

    return ask


def report(*checks: Check, broken: tuple[Result, ...] = (), **settings: Any) -> Report:
    return run(LoadedChecks(checks, broken, {}), fake_host(), Settings(**settings))


def row(ask: CheckFunction, **settings: Any) -> Result:
    (only,) = report(made("a", ask), **settings).results
    return only


class Mute(Exception):
    """Fails even at saying what it is."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("ask", "status", "reason", "needed"),
    [
        (saying(), Status.OK, None, True),
        (saying(Finding("a.note", "x")), Status.OK, None, True),
        (saying(Finding("a.odd", "x")), Status.PROBLEM, None, True),
        (saying(Finding("a.bad", "x", severity=Severity.INFO)), Status.OK, None, True),
        (saying(then=Skip("no need")), Status.SKIPPED, "no need", False),
        (saying(then=NotRunning()), Status.SKIPPED, "an image is not running", False),
        (saying(then=Unknown("no way")), Status.UNKNOWN, "no way", True),
        (saying(then=Unknown("no way", advisory=True)), Status.UNKNOWN, "no way", False),
        (saying(then=Unknown(5)), Status.UNKNOWN, "5", True),  # type: ignore[arg-type]
        (saying(then=KeyError("x")), Status.CRASHED, "KeyError: 'x'", True),
        (saying(then=ValueError()), Status.CRASHED, "ValueError", True),
        (saying(then=TimeoutError("slow")), Status.CRASHED, "TimeoutError: slow", True),
        (saying(then=SystemExit(0)), Status.CRASHED, "SystemExit: 0", True),
        (saying(then=KeyboardInterrupt()), Status.CRASHED, "KeyboardInterrupt", True),
        (saying(then=GeneratorExit()), Status.CRASHED, "GeneratorExit", True),
        (saying(then=Mute()), Status.CRASHED, "Mute", True),
        (saying("text"), Status.CRASHED, "TypeError: a check yields findings, not str", True),
        (lambda host: None, Status.CRASHED, "TypeError: 'NoneType' object is not iterable", True),
    ],
)  # fmt: skip
def test_every_ending_is_a_row(ask: CheckFunction, status: Status, reason: str, needed: bool) -> None:
    found = row(ask)
    assert (found.status, found.reason, found.needed) == (status, reason, needed)
    assert (found.check, found.title, found.group) == ("a", "a is fine", "group")


def test_findings_before_the_end_are_kept() -> None:
    for then in (Skip("s"), Unknown("u"), KeyError("k")):
        found = row(saying(Finding("a.bad", "x"), Facts({"n": 1}), then=then))
        assert [finding.code for finding in found.findings] == ["a.bad"] and found.facts == {"n": 1}
    assert report(made("a", saying(Finding("a.bad", "x"), then=KeyError()))).verdict is Verdict.NOT_READY


@pytest.mark.parametrize("then", [Skip("s"), NotRunning()])
def test_a_row_with_a_finding_of_weight_is_not_skipped(then: Exception) -> None:
    found = row(saying(Finding("a.odd", "x"), then=then))
    assert (found.status, found.needed) == (Status.PROBLEM, True) and found.reason
    found = row(saying(Finding("a.note", "x"), then=then))
    assert (found.status, found.needed) == (Status.SKIPPED, False)


def test_secrets_in_a_reason_are_hidden() -> None:
    assert row(saying(then=ValueError("password=hunter2"))).reason == "ValueError: password=***"


def forever(release: threading.Event) -> CheckFunction:
    def ask(host: Host) -> Iterator[CheckOutput]:
        yield Facts({"seen": "before it hung"})
        release.wait(30)

    return ask


def timed(work: Callable[[], Report]) -> tuple[Report, float]:
    started = time.monotonic()
    return work(), time.monotonic() - started


def test_a_hung_check_is_named_and_left_behind() -> None:
    release = threading.Event()
    checks = (made("a", forever(release)), made("b", saying()))
    done, took = timed(lambda: report(*checks, timeout=0.2))
    release.set()
    assert took < 0.2 + GRACE + 0.5
    assert [(one.status, one.reason) for one in done.results] == [
        (Status.TIMEOUT, "no result within 0.2 s; the check was abandoned"),
        (Status.OK, None),
    ]
    assert done.results[0].facts == {"seen": "before it hung"}


def test_all_hung_checks_share_one_deadline() -> None:
    release = threading.Event()
    done, took = timed(lambda: report(*(made(name, forever(release)) for name in "abcdef"), deadline=1.0))
    release.set()
    assert took < 1.0 + GRACE + 1.0  # one after the other they would take six
    assert {one.reason for one in done.results} == {"no result within 1 s; the check was abandoned"}


def test_checks_run_side_by_side() -> None:
    def slow(host: Host) -> Iterator[CheckOutput]:
        time.sleep(0.3)
        yield Facts({})

    _done, took = timed(lambda: report(*(made(name, slow) for name in "abcdefgh")))
    assert took < 1.0


def test_what_is_not_selected_has_no_row_and_what_is_out_of_scope_is_skipped() -> None:
    broken = Result("broken", "t", "drop-in", Status.BROKEN, reason="r")
    checks = (
        made("a", saying()),
        made("b", saying(), Scope.JOB, tags=("tag",)),
        made("c", saying(), quick=False),
        made("d", saying(), Scope.JOB, quick=False, always=True),
    )

    def rows(**settings: Any) -> dict[str, str]:
        return {one.check: one.status.value for one in report(*checks, broken=(broken,), **settings).results}

    assert rows(select=("a",)) == {"a": "ok"}
    assert rows(select=("tag", "c.odd", "broken")) == {"b": "ok", "c": "ok", "broken": "broken"}
    assert rows(select=("drop-in",)) == {"broken": "broken"}
    assert rows(scope="node") == {"a": "ok", "b": "skipped", "c": "ok", "d": "ok", "broken": "broken"}
    assert rows(profile="quick") == {"a": "ok", "b": "ok", "c": "skipped", "d": "ok", "broken": "broken"}


def test_a_report_is_made_where_nothing_can_be_described() -> None:
    class Nothing(Host):
        def _choose_interpreter(self) -> Any:
            raise OSError("no")

    done = run(LoadedChecks((made("a", saying()),), (), {}), Nothing(variables={}), Settings())
    assert done.verdict is Verdict.READY and done.target.python is None and done.host.name


def test_a_fix_that_cannot_be_shown_is_the_checks_crash() -> None:
    bad = Finding("a.bad", "x", fix=Fix("t", ("no step",)))  # type: ignore[arg-type]
    assert row(saying(bad)).status is Status.CRASHED
