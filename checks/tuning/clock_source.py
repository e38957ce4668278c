"""Is reading the time cheap?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Facts, Finding, Host, Scope, _, check
from npudoctor.checks.tuning._settings import advise, read_or_empty, read_setting, write_setting

# Only root may write current_clocksource.
FOLDER = "/sys/devices/system/clocksource/clocksource0"
CURRENT, AVAILABLE = f"{FOLDER}/current_clocksource", f"{FOLDER}/available_clocksource"
# Each reading of them is a system call and an access to a chip, or a page of the hypervisor.
SLOW = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen")
# The counter of x86 processors. arm's arch_sys_counter and kvm-clock are as cheap, and are not in SLOW.
FAST = "tsc"


@check(
    "clock-source",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"clock-source.slow": INFO},
)
def clock_source(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The kernel uses a fast clock source.

    ## What it does

    Reads which counter the kernel takes the time from. Whether the time is right is the subject of the check
    `clock`.

    - `clock-source.slow`: it is hpet, acpi_pm, xen or the timer tick. A kernel chooses these by itself only
      when it finds that the processor's own counter (tsc) is unreliable; its log says when.

    ## Why it matters

    Frameworks, profilers and loggers read the time very often. With tsc, arm's arch_sys_counter or kvm-clock
    a read takes a few instructions; with these it takes a system call and an access to a slow chip.

    Gain: one report gives 4.5 microseconds for each read with hpet, 0.1 with tsc. How often a job reads the
    time depends on the job: no source states a figure for training.

    ## Fix safety

    Shown only. Do not force a counter that the kernel has found unstable: the time would jump. The change
    lasts until the next boot.

    ## References

    - Red Hat Enterprise Linux for Real Time, reference guide, timestamping: hardware clocks.
    - deeperf.com, "A performance issue caused by the TSC clock source missing in Linux" (the figure).
    - Documentation/timers/timekeeping.rst of the kernel.
    """
    current = read_setting(host, CURRENT)
    available = read_or_empty(host, AVAILABLE).split()
    yield Facts({"current": current, "available": available})
    if current not in SLOW:
        return
    message = _(
        "the kernel's clock source is {now}, which is slow to read; available: {others}",
        now=current,
        others=", ".join(available) or "-",
    )
    if FAST in available:
        title = _(
            "use tsc until the next boot, if `dmesg | grep -i clocksource` does not report it as unstable"
        )
        yield advise(host, "clock-source.slow", message, title, [write_setting(CURRENT, FAST, current)])
    else:
        title = _("`dmesg | grep -i -e tsc -e clocksource` says why the kernel does not offer tsc")
        yield advise(host, "clock-source.slow", message, title, ())
