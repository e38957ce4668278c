"""Do the processors run at full speed whenever there is work?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Command, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.tuning._settings import advise, read_or_empty, write_command

# One folder for each set of CPUs that share a frequency (Documentation/admin-guide/pm/cpufreq.rst).
POLICIES = "/sys/devices/system/cpu/cpufreq"
# With intel_pstate and amd_pstate, powersave is not the lowest frequency either, but it rises later
# (intel_pstate.rst, amd-pstate.rst of the kernel).
WANTED = "performance"


@check(
    "cpu-governor",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"cpu-governor.saves-power": INFO},
)
def cpu_governor(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The CPU frequency governor is performance.

    ## What it does

    Reads the governor of each frequency policy of the CPUs. Skipped if the kernel does not set frequencies:
    on most virtual machines, and on servers whose firmware controls them.

    - `cpu-governor.saves-power`: a governor other than `performance` is in use. With intel_pstate and
      amd_pstate `powersave` is not the lowest frequency, but a slower way up.

    ## Why it matters

    One CPU thread feeds each accelerator. While that thread waits for its frequency to rise, short
    operators leave the accelerator idle. A model whose operators take long gains nothing.

    Gain: Huawei measured 0.9 to 1.2 % more tokens per second (Llama-7B and Qwen2-7B, Atlas 800T A2, the
    server's power policy, inference); for training its guide states no figure. It costs power while the node
    is idle.

    ## Fix safety

    Shown only: the decision belongs to whoever pays for power and cooling. The change lasts until the next
    boot.

    ## References

    - CANN 8.5.0, software installation guide, BIOS configuration: power policy Performance.
    - Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst of the kernel.
    """
    files = host.running_files
    names = [name for name in files.names(POLICIES) if name.startswith("policy")]
    governor_by_policy = {
        name: read_or_empty(host, f"{POLICIES}/{name}/scaling_governor") for name in sorted(names)
    }
    governors = sorted(set(filter(None, governor_by_policy.values())))
    if not governors:
        raise Skip(_("the kernel does not control CPU frequencies on this machine"))
    yield Facts({"governors": governors})
    power_saving = [governor for governor in governors if governor != WANTED]
    if power_saving:
        yield advise(
            host,
            "cpu-governor.saves-power",
            _(
                "the CPU frequency governor is {governors}, not performance: short operators may wait for "
                "the CPU",
                governors=", ".join(power_saving),
            ),
            _("keep the CPUs at full speed until the next boot"),
            [
                Command(
                    write_command(WANTED, _governor_path("*")),
                    undo=("sh", "-c", _undo_line(governor_by_policy)),
                )
            ],
            *(
                f"`{governor}`: {sum(value == governor for value in governor_by_policy.values())}"
                for governor in governors
            ),
        )


def _governor_path(policy: str) -> str:
    return f"{POLICIES}/policy{policy}/scaling_governor"


def _undo_line(governor_by_policy: dict[str, str]) -> str:
    """Return the shell line that restores the governors: one command if all were the same, else one for
    each."""
    governors = sorted(set(filter(None, governor_by_policy.values())))
    if len(governors) == 1:
        line: str = write_command(governors[0], _governor_path("*"))[-1]
        return line
    parts = []
    for governor in governors:
        paths = [
            _governor_path(name[len("policy") :])
            for name, value in governor_by_policy.items()
            if value == governor
        ]
        parts.append(write_command(governor, *paths)[-1])
    return "; ".join(parts)
