"""The clock: kept, not kept, silent, absurd; and the real one of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import Status
from npudoctor.checks.host.clock import clock
from npudoctor.host.clock import Clock
from npudoctor.testing import Asked, ask, fake_host


def test_kept() -> None:
    asked = ask(clock, fake_host())
    assert (asked.status, asked.codes, asked.facts) == (Status.OK, [], {"synchronised": True})


def test_not_kept_is_information() -> None:
    asked = ask(clock, fake_host(synchronised=False))
    assert (asked.status, asked.codes) == (Status.OK, ["clock.unsynchronised"])


@pytest.mark.parametrize(
    ("tools", "lines"),
    [
        ([], None),
        (["chronyc"], ("chronyc tracking",)),
        (["timedatectl", "chronyc"], ("timedatectl status", "chronyc tracking")),
    ],
)
def test_only_what_is_installed_is_offered(tools: list[str], lines: Optional[tuple[str, ...]]) -> None:
    (finding,) = ask(clock, fake_host(synchronised=False, commands=dict.fromkeys(tools, ""))).findings
    assert (finding.fix and finding.fix.commands) == lines


def test_who_cannot_ask_the_kernel_cannot_tell() -> None:
    asked = ask(clock, fake_host(synchronised=None))
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)


def test_a_clock_of_1970_is_wrong() -> None:
    asked = ask(clock, fake_host(now=86400.0, synchronised=False))
    assert (asked.status, asked.codes) == (Status.PROBLEM, ["clock.wrong", "clock.unsynchronised"])
    assert "19722 days" in asked.findings[0].message


def test_the_kernel_answers_and_its_clock_is_left_alone() -> None:
    before = Clock().now()
    assert Clock().is_synchronised() in (True, False, None)
    assert 0 <= Clock().now() - before < 5


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(clock, fake_host(now=0.0, synchronised=False, commands={"chronyc": ""}))
    yield ask(clock, fake_host(synchronised=None))
