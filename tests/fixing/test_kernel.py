"""A setting of the kernel is set and taken back, and only if nobody else has set it since."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

import pytest
from tests.support import ipc
from tests.support.desk import Desk
from tests.support.others import forked

from npudoctor.fixing.outcome import ActionStatus, Outcome
from npudoctor.fixing.steps.steps import SetKernel, decode, encode

NAME = "net.ipv4.ip_local_reserved_ports"
PATH = Path("/proc/sys/net/ipv4/ip_local_reserved_ports")
STEP = SetKernel(NAME, "8080,40000-40031", "8080")


def alone(desk: Desk, work: Callable[[], list[Outcome]]) -> tuple[list[Outcome], str]:
    """Do it in a network namespace of its own; how it ended, and what is reserved then."""

    def inside() -> tuple[list[Outcome], str]:
        ipc.unshare("net")
        PATH.write_text("8080\n")
        return work(), PATH.read_text().strip()

    return forked(inside)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.needs_root
def test_set_and_taken_back(desk: Desk) -> None:
    applied = Outcome(ActionStatus.APPLIED, changed=True)
    assert alone(desk, lambda: [desk.take(STEP)]) == ([applied], STEP.value)
    ended, now = alone(desk, lambda: [desk.take(STEP), desk.take(STEP), desk.take(STEP.back())])
    assert [one.ending.value for one in ended] == ["applied", "already", "applied"]
    assert [one.changed for one in ended] == [True, False, True]
    assert now == "8080"
    everything = SetKernel(NAME, "", "8080")
    ended, now = alone(desk, lambda: [desk.take(everything), desk.take(everything.back())])
    assert ([one.ending.value for one in ended], now) == (["applied", "applied"], "8080")


@pytest.mark.needs_root
@pytest.mark.parametrize("step", [SetKernel(NAME, "1", "2"), SetKernel(NAME, "1", "")])
def test_what_another_set_since(desk: Desk, step: SetKernel) -> None:
    ((ended,), now) = alone(desk, lambda: [desk.take(step)])
    assert (ended.ending, ended.changed, now) == (ActionStatus.REFUSED, False, "8080")


@pytest.mark.needs_root
def test_what_the_kernel_spells_otherwise_is_a_failure_that_changed_something(desk: Desk) -> None:
    ((ended,), now) = alone(desk, lambda: [desk.take(SetKernel(NAME, "3,1-2", "8080"))])
    assert (ended.ending, ended.changed, now) == (ActionStatus.FAILED, True, "1-3")
    assert "reads 1-3" in ended.reason


@pytest.mark.needs_root
def test_what_the_kernel_refuses(desk: Desk) -> None:
    ((ended,), now) = alone(desk, lambda: [desk.take(SetKernel(NAME, "70000", "8080"))])
    assert (ended.ending, ended.changed, now) == (ActionStatus.FAILED, False, "8080")


@pytest.mark.parametrize("name", ["../../etc/passwd", "kernel..x", "", "a/b", "kernel.é", "a b"])
def test_a_name_that_is_none(desk: Desk, name: str) -> None:
    assert desk.take(SetKernel(name, "x", "y")).ending is ActionStatus.REFUSED


def test_a_setting_that_is_not_there(desk: Desk) -> None:
    ended = desk.take(SetKernel("kernel.no_such_setting", "x", "y"))
    assert (ended.ending, ended.changed) == (ActionStatus.FAILED, False)
    assert ended.reason == os.strerror(2)


def test_lines_and_json() -> None:
    assert STEP.lines() == (f"sysctl -w {NAME}=8080,40000-40031",)
    assert STEP.undo_lines() == (f"sysctl -w {NAME}=8080",)
    assert decode(encode(STEP)) == STEP


@pytest.mark.needs_root
def test_the_line_for_nothing_works_with_every_sysctl(desk: Desk) -> None:
    """sysctl of procps-ng 3 calls `name=` malformed."""
    (line,) = SetKernel(NAME, "", "8080").lines()
    assert line == f"echo > {PATH}"

    def inside() -> tuple[int, str]:
        ipc.unshare("net")
        PATH.write_text("8080\n")
        return os.system(line), PATH.read_text().strip()  # noqa: S605

    assert forked(inside) == (0, "")
