"""Taking a snapshot: no section and no check stops another, and none is waited for too long."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from npudoctor import Host, Scope, Status
from npudoctor.checking.check import Check, CheckOutput
from npudoctor.facts.snapshot import sections
from npudoctor.facts.snapshot.values import Fact
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner.runner import Settings
from npudoctor.runner.snapshot import TakenSnapshot, take_snapshot
from npudoctor.testing import fake_host


def crash(host: Host) -> Iterator[CheckOutput]:
    raise ZeroDivisionError("a check")
    yield


def taken(**settings: float) -> TakenSnapshot:
    checks = (Check("sick", Scope.NODE, {}, crash, "sick is well", group="group"),)
    return take_snapshot(LoadedChecks(checks, (), {}), fake_host(), Settings(**settings))  # type: ignore[arg-type]


def test_all_sections_and_the_checks_are_there() -> None:
    snapshot = taken()
    assert list(snapshot.sections) == list(sections.READERS)
    assert [(row.check, row.status) for row in snapshot.report.results] == [("sick", Status.CRASHED)]
    assert snapshot.report.exit_code == 2 and snapshot.report.counts["ok"] == 0


def test_a_section_that_hangs_or_breaks_is_named_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hang(host: Host) -> Iterator[Fact]:
        time.sleep(5)
        yield Fact("late")

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def mute(host: Host) -> Iterator[Fact]:
        raise Mute
        yield

    monkeypatch.setitem(sections.READERS, "system", hang)
    monkeypatch.setitem(sections.READERS, "network", mute)
    began = time.monotonic()
    snapshot = taken(timeout=0.3, deadline=1.0)
    assert time.monotonic() - began < 3
    assert snapshot.sections["system"].failed and snapshot.sections["network"].failed
    assert snapshot.sections["network"].crashed and not snapshot.sections["system"].crashed
    assert all(not snapshot.sections[name].failed for name in ("packages", "limits", "cann"))
