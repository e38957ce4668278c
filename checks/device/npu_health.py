"""Are the NPUs well, by their own account?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Host, Scope, Unknown, _, check

if TYPE_CHECKING:
    from npudoctor.host.devices.npu_tables import Chip

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

    Reads the column Health of `npu-smi info`. Of each chip that is not OK the tool is asked for the error
    codes and what they mean (`npu-smi info -t health`), all of them side by side; multi-bit errors of the
    device memory, lost heartbeats and the like are among these. A chip that is OK is asked no more. In a
    container only the devices whose nodes are here are looked at, where the table tells which those are.

    - `npu-health.warning`: something is wrong that the device works with.
    - `npu-health.alarm`, `npu-health.critical`: it does not work as it should; keep jobs off the device and
      tell the vendor the codes.

    UNKNOWN, or a word that is not one of npu-smi's, leaves the row unknown. A chip without an error code is
    shown as OK by the tool itself. Where npu-smi gives no table, npu-tool says why.

    ## Why it matters

    A device in alarm fails jobs hours later, or slows the whole communicator down.

    ## References

    - npu-smi, public source: the words of the column and of `-t health`.
    - Captured answers of 910A with Warning and with Alarm.
    """
    from npudoctor.checks.device._npu_smi_screen import screen_of

    chips: Sequence[Chip] = screen_of(host).chips
    if host.system.container():
        from npudoctor.facts.npu.visible import chips_here

        chips = chips_here(host, chips) or chips  # others' devices are not this container's trouble
    yield Facts({"health": {f"{chip.npu}/{chip.chip}": chip.health for chip in chips}})
    ill = [chip for chip in chips if chip.health.lower() in LEVELS]
    if ill:
        questions = [(chip.npu, chip.chip if chip.old else None) for chip in ill]
        for chip, health in zip(ill, host.npu_smi.health(questions)):
            code, action = LEVELS[chip.health.lower()]
            if health is not None and health.codes:
                text = _("{device} ({name}) is in the state {health}: {codes}")
            else:
                text = _("{device} ({name}) is in the state {health}")
            ask = f"npu-smi info -t health -i {chip.npu}" + (f" -c {chip.chip}" if chip.old else "")
            codes = " ".join(health.codes) if health else ""
            yield Finding(
                code,
                text.format(device=chip.label, name=chip.name, health=chip.health, codes=codes),
                evidence=(*(health.information if health else ()), _("more: {command}", command=ask)),
                device=chip.label,
                action=action,
            )
    strange = [chip for chip in chips if chip.health.lower() not in (*LEVELS, "ok")]
    if strange:
        names = ", ".join(chip.label for chip in strange)
        raise Unknown(
            _(
                "npu-smi does not report the health of {devices}: {word}",
                devices=names,
                word=strange[0].health or "-",
            )
        )
