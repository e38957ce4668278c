"""clock-source: fast ones, slow ones with and without tsc; and what this kernel uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checks.tuning.tuned_machine import judge

from npudoctor import Status
from npudoctor.checks.tuning.clock_source import AVAILABLE, CURRENT, clock_source
from npudoctor.testing import Asked, Content, unreadable


def _clock(now: str, others: str) -> dict[str, Content]:
    return {CURRENT: f"{now}\n", AVAILABLE: f"{others} \n"}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield judge(clock_source, _clock("hpet", "tsc hpet acpi_pm"))
    yield judge(clock_source, _clock("hpet", "hpet acpi_pm"))
    yield judge(clock_source, {})


@pytest.mark.parametrize("name", ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"])
def test_fast_ones(name: str) -> None:
    assert judge(clock_source, _clock(name, f"{name} hpet")).codes == []


def test_a_slow_one_with_the_way_back() -> None:
    (finding,) = judge(clock_source, _clock("acpi_pm", "tsc hpet acpi_pm")).findings
    assert "acpi_pm" in finding.message and finding.fix is not None
    assert finding.fix.commands == (f"sh -c 'echo tsc > {CURRENT}'",)
    assert finding.fix.undo_commands == (f"sh -c 'echo acpi_pm > {CURRENT}'",)


def test_where_the_kernel_took_tsc_away_no_line_forces_it() -> None:
    (finding,) = judge(clock_source, _clock("hpet", "hpet acpi_pm")).findings
    assert finding.fix is not None and finding.fix.commands == ()


def test_skipped_and_unknown() -> None:
    assert judge(clock_source, {}).status is Status.SKIPPED
    assert judge(clock_source, {CURRENT: unreadable()}).status is Status.UNKNOWN


@pytest.mark.skipif(not Path(CURRENT).exists(), reason="this kernel names no clock source")
def test_this_kernels_is_one_of_those_that_it_offers() -> None:
    asked = judge(clock_source, {path: Path(path).read_text() for path in (CURRENT, AVAILABLE)})
    assert asked.facts["current"] in asked.facts["available"]  # type: ignore[operator]
