"""Are the NPUs well, by their own account?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Host, Scope, Unknown, _, check

if TYPE_CHECKING:
    from npudoctor.host.devices.npu_tables import Chip

# npu-smi's words besides OK and UNKNOWN.
LEVELS = {
    "warning": ("npu-health.warning", Action.NONE),
    "alarm": ("npu-health.alarm", Action.ISOLATE),
    "critical": ("npu-health.critical", Action.ISOLATE),
}


@check(
    "npu-health",
    scope=Scope.NODE,
    tags={"ascend"},
    needs=("npu",),
    codes={
        "npu-health.warning": WARNING,
        "npu-health.alarm": ERROR,
        "npu-health.critical": ERROR,
    },
    quick=False,
)
def npu_health(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Every NPU reports its health as OK.

    ## What it does

    Reads the column Health of `npu-smi info`. For each chip that is not OK, the tool is asked for the error
    codes and their meaning (`npu-smi info -t health`), for all such chips in parallel; they include multi-bit
    errors of the device memory and lost heartbeats. Chips that are OK are not queried further. In a container
    only the devices whose nodes exist there are examined, if the table identifies them.

    - `npu-health.warning`: the device reports a fault, but still works.
    - `npu-health.alarm`, `npu-health.critical`: the device does not work properly; start no jobs on it and
      report the codes to the vendor.

    If the value is UNKNOWN or not one of npu-smi's words, the result is unknown. npu-smi itself shows a chip
    without an error code as OK. If npu-smi prints no table, npu-tool reports the reason.

    ## Why it matters

    A device in the Alarm state makes jobs fail hours later, or slows down the whole communicator.

    ## References

    - npu-smi, public source: the words of the column and of `-t health`.
    - Captured answers of 910A with Warning and with Alarm.
    """
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.device._npu_smi_screen import screen_of

    chips: Sequence[Chip] = screen_of(host).chips
    if host.system.is_container():
        from npudoctor.facts.npu.visible import chips_here

        chips = chips_here(host, chips) or chips  # others' devices are not this container's trouble
    yield Facts({"health": {f"{chip.npu}/{chip.chip}": chip.health for chip in chips}})
    unhealthy = [chip for chip in chips if chip.health.lower() in LEVELS]
    if unhealthy:
        questions = [(chip.npu, chip.chip if chip.has_chip_option else None) for chip in unhealthy]
        for chip, health in zip(unhealthy, host.npu_smi.read_health(questions)):
            code, action = LEVELS[chip.health.lower()]
            if health is not None and health.codes:
                text = _("{device} ({name}) is in the state {health}: {codes}")
            else:
                text = _("{device} ({name}) is in the state {health}")
            command = f"npu-smi info -t health -i {chip.npu}" + (
                f" -c {chip.chip}" if chip.has_chip_option else ""
            )
            codes = " ".join(health.codes) if health else ""
            yield Finding(
                code,
                text.format(device=chip.label, name=chip.name, health=chip.health, codes=codes),
                evidence=(*(health.information if health else ()), _("more: {command}", command=command)),
                device=chip.label,
                action=action,
            )
    unknown_chips = [chip for chip in chips if chip.health.lower() not in (*LEVELS, "ok")]
    if unknown_chips:
        names = ", ".join(chip.label for chip in unknown_chips)
        raise Unknown(
            _(
                "npu-smi does not report the health of {devices}: {word}",
                devices=names,
                word=unknown_chips[0].health or "-",
            )
        )
