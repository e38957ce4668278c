"""Faults of NPUs and GPUs: device nodes, PCI cards and tools are simulated."""

from __future__ import annotations

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import TYPED, register_fault
from npudoctor.rehearsal.stage import Stage

_EDGE = "+----------------------+---------------+----------------------------------------------------+"
_HEAD = f"""\
+-------------------------------------------------------------------------------------------+
| npu-smi 25.5.0                  Version: 25.5.0                                          |
{_EDGE}
| NPU   Name           | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                 | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
"""
_CHIP = """\
| {number:<5} 910B2          | {health:<13} | 93.1        42                0    / 0             |
| 0                    | 0000:{bus:02X}:00.0  | 0           0    / 0          3315 / 65536         |
"""
_PROCESSES = f"""\
{_EDGE}
| NPU     Chip         | Process id    | Process name             | Process memory(MB)      |
"""


def npu_smi_screen(*healths: str) -> str:
    """The output of `npu-smi info` for chips with these health states."""
    line = _EDGE.replace("-", "=") + "\n"
    chips = [
        _CHIP.format(number=number, health=health, bus=number + 0x61) for number, health in enumerate(healths)
    ]
    none = "| No running processes found in NPU 0 |\n"
    return line.join([_HEAD, *chips, _PROCESSES, none, ""]).rstrip("\n")


@register_fault(
    "no-npu",
    "accelerator.missing",
    _("the node has no NPU, and the job needs one"),
    options=("--expect", "npu"),
)
def _leave_out_npus(stage: Stage) -> None:
    pass


@register_fault("npu-alarm", "npu-health.alarm", _("npu-smi reports an alarm for one NPU"), real=False)
def _raise_alarm(stage: Stage) -> None:
    stage.add_npus()
    stage.add_program("npu-smi", npu_smi_screen("OK", "Alarm"))


@register_fault("npu-dropped-out", "npu-tool.fewer-devices", _("an NPU has dropped out"), real=False)
def _drop_card(stage: Stage) -> None:
    stage.add_npus()
    stage.add_program("npu-smi", npu_smi_screen("OK"))


@register_fault("no-driver-manager", "device-nodes.missing", _("/dev/davinci_manager is missing"), real=False)
def _remove_manager(stage: Stage) -> None:
    stage.add_npus()
    stage.remove_device("davinci_manager")


@register_fault(
    "visible-devices",
    "device-visibility.no-such-device",
    _("the list of visible NPUs contains one that does not exist"),
    remedy=TYPED,
    real=False,
)
def _list_absent_npu(stage: Stage) -> None:
    stage.add_npus()
    stage.variables["ASCEND_RT_VISIBLE_DEVICES"] = "0,1,7"


@register_fault(
    "repeated-gpu",
    "gpu-visibility.repeated",
    _("CUDA_VISIBLE_DEVICES lists a GPU twice"),
    remedy=TYPED,
    real=False,
)
def _repeat_gpu(stage: Stage) -> None:
    stage.add_gpus()
    stage.variables["CUDA_VISIBLE_DEVICES"] = "0,0"


@register_fault(
    "bad-nccl-value",
    "nccl-env.bad-value",
    _("NCCL does not recognize the value of a variable"),
    remedy=TYPED,
    real=False,
)
def _set_bad_nccl_value(stage: Stage) -> None:
    stage.add_gpus()
    stage.add_package("torch", "2.5.1")
    stage.variables["NCCL_DEBUG"] = "LOUD"


@register_fault("no-gpu-node", "gpu-nodes.missing", _("a container has no /dev/nvidiactl"), real=False)
def _remove_control_node(stage: Stage) -> None:
    stage.write("/.dockerenv", "")
    stage.add_gpus()
    stage.remove_device("nvidiactl")
