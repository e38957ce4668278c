"""NPUs and GPUs: none of them is real here, their nodes, cards and tools are made up."""

from __future__ import annotations

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import TYPED, fault
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


def screen(*healths: str) -> str:
    """What npu-smi prints of chips with these states."""
    line = _EDGE.replace("-", "=") + "\n"
    chips = [
        _CHIP.format(number=number, health=health, bus=number + 0x61) for number, health in enumerate(healths)
    ]
    none = "| No running processes found in NPU 0 |\n"
    return line.join([_HEAD, *chips, _PROCESSES, none, ""]).rstrip("\n")


@fault(
    "no-npu",
    "accelerator.missing",
    _("the node has no NPU, and the job needs one"),
    options=("--expect", "npu"),
)
def _none(stage: Stage) -> None:
    pass


@fault("npu-alarm", "npu-health.alarm", _("npu-smi reports an alarm for one NPU"), real=False)
def _alarm(stage: Stage) -> None:
    stage.npus()
    stage.program("npu-smi", screen("OK", "Alarm"))


@fault("npu-dropped-out", "npu-tool.fewer-devices", _("an NPU has dropped out"), real=False)
def _drop_card(stage: Stage) -> None:
    stage.npus()
    stage.program("npu-smi", screen("OK"))


@fault("no-driver-manager", "device-nodes.missing", _("/dev/davinci_manager is missing"), real=False)
def _manager(stage: Stage) -> None:
    stage.npus()
    stage.remove_device("davinci_manager")


@fault(
    "visible-devices",
    "device-visibility.no-such-device",
    _("the list of visible NPUs contains one that does not exist"),
    remedy=TYPED,
    real=False,
)
def _visible(stage: Stage) -> None:
    stage.npus()
    stage.variables["ASCEND_RT_VISIBLE_DEVICES"] = "0,1,7"


@fault(
    "repeated-gpu",
    "gpu-visibility.repeated",
    _("CUDA_VISIBLE_DEVICES lists a GPU twice"),
    remedy=TYPED,
    real=False,
)
def _repeat_gpu(stage: Stage) -> None:
    stage.gpus()
    stage.variables["CUDA_VISIBLE_DEVICES"] = "0,0"


@fault(
    "bad-nccl-value",
    "nccl-env.bad-value",
    _("NCCL does not recognize the value of a variable"),
    remedy=TYPED,
    real=False,
)
def _nccl(stage: Stage) -> None:
    stage.gpus()
    stage.package("torch", "2.5.1")
    stage.variables["NCCL_DEBUG"] = "LOUD"


@fault("no-gpu-node", "gpu-nodes.missing", _("a container has no /dev/nvidiactl"), real=False)
def _control(stage: Stage) -> None:
    stage.write("/.dockerenv", "")
    stage.gpus()
    stage.remove_device("nvidiactl")
