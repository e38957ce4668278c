"""numa-balancing: off, on, one node, no such setting, no answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.checks.tuning.tuned_machine import TWO_NODES, judge

from npudoctor import Status
from npudoctor.checks.tuning.numa_balancing import PATH, numa_balancing
from npudoctor.testing import Asked, unreadable


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield judge(numa_balancing, {PATH: "1\n", **TWO_NODES})
    yield judge(numa_balancing, {PATH: "1\n"})
    yield judge(numa_balancing, {})


def test_off_is_quiet() -> None:
    asked = judge(numa_balancing, {PATH: "0\n", **TWO_NODES})
    assert (asked.status, asked.codes, asked.facts["nodes"]) == (Status.OK, [], 2)


def test_on_says_how_to_turn_it_off_and_on() -> None:
    (finding,) = judge(numa_balancing, {PATH: "1\n", **TWO_NODES}).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("sysctl -w kernel.numa_balancing=0",)
    assert finding.fix.undo_commands == ("sysctl -w kernel.numa_balancing=1",)


def test_skipped_where_it_does_not_apply() -> None:
    assert judge(numa_balancing, {PATH: "1\n"}).status is Status.SKIPPED
    assert judge(numa_balancing, TWO_NODES).status is Status.SKIPPED


def test_cannot_tell() -> None:
    assert judge(numa_balancing, {PATH: unreadable(), **TWO_NODES}).status is Status.UNKNOWN
