"""Settings that cost speed; the kernel's own are made up, as a namespace has none of its own."""

from __future__ import annotations

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import TYPED, fault
from npudoctor.rehearsal.stage import Stage


@fault(
    "slow-clock",
    "clock-source.slow",
    _("the kernel uses a slow clock source"),
    remedy=TYPED,
    real=False,
)
def _clock(stage: Stage) -> None:
    stage.npus()
    folder = "/sys/devices/system/clocksource/clocksource0"
    stage.write(f"{folder}/current_clocksource", "hpet\n")
    stage.write(f"{folder}/available_clocksource", "tsc hpet acpi_pm\n")


@fault(
    "saving-governor",
    "cpu-governor.saves-power",
    _("the CPUs are in power-saving mode"),
    remedy=TYPED,
    real=False,
)
def _governor(stage: Stage) -> None:
    stage.npus()
    for number in range(4):
        path = f"/sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor"
        stage.write(path, "powersave\n")


@fault(
    "too-many-threads",
    "omp-threads.unset",
    _("each rank starts one thread per CPU"),
    remedy=TYPED,
    real=False,
)
def _threads(stage: Stage) -> None:
    stage.npus(8)
