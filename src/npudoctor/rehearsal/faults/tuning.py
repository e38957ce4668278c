"""Faults that cost speed; kernel settings are simulated, as they belong to no namespace."""

from __future__ import annotations

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import TYPED, register_fault
from npudoctor.rehearsal.stage import Stage


@register_fault(
    "slow-clock",
    "clock-source.slow",
    _("the kernel uses a slow clock source"),
    remedy=TYPED,
    real=False,
)
def _use_slow_clock(stage: Stage) -> None:
    stage.add_npus()
    folder = "/sys/devices/system/clocksource/clocksource0"
    stage.write(f"{folder}/current_clocksource", "hpet\n")
    stage.write(f"{folder}/available_clocksource", "tsc hpet acpi_pm\n")


@register_fault(
    "saving-governor",
    "cpu-governor.saves-power",
    _("the CPUs are in power-saving mode"),
    remedy=TYPED,
    real=False,
)
def _save_power(stage: Stage) -> None:
    stage.add_npus()
    for number in range(4):
        path = f"/sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor"
        stage.write(path, "powersave\n")


@register_fault(
    "too-many-threads",
    "omp-threads.unset",
    _("each rank starts one thread per CPU"),
    remedy=TYPED,
    real=False,
)
def _leave_threads_unset(stage: Stage) -> None:
    stage.add_npus(8)
