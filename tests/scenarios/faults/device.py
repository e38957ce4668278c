"""Faults of the devices, of their nodes, and of what chooses among them."""

from __future__ import annotations

from tests.checks.device import npu_machine as tool
from tests.scenarios import npu
from tests.scenarios.fault import fault
from tests.scenarios.machines import Machine
from tests.scenarios.variants import in_container

from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import device, folder, process_files

RT = "ASCEND_RT_VISIBLE_DEVICES"


def close(machine: Machine, *names: str) -> None:
    """Device nodes for root alone."""
    machine.files.update({f"/dev/{name}": device(0o660, 0) for name in names})


@fault("the user is not in the devices' group", "device-nodes.no-access")
def _(machine: Machine) -> None:
    machine.groups = frozenset({machine.uid})
    machine.npu_smi = tool.NO_RIGHTS


@fault(
    "the user is not in the devices' group, and npu-smi may be used all the same", "device-nodes.no-access"
)
def _(machine: Machine) -> None:
    machine.groups = frozenset({machine.uid})


@fault("davinci_manager is for root alone", "device-nodes.no-access")
def _(machine: Machine) -> None:
    close(machine, "davinci_manager")


@fault("no davinci_manager", "device-nodes.missing")
def _(machine: Machine) -> None:
    machine.remove("/dev/davinci_manager")


@fault("the container was not given hisi_hdc", "device-nodes.missing")
def _(machine: Machine) -> None:
    machine.remove("/dev/hisi_hdc")
    machine.files["/.dockerenv"] = ""
    machine.npu_smi = tool.NO_DRIVER


@fault("docker made a folder where the host had no node", "device-nodes.not-a-device")
def _(machine: Machine) -> None:
    machine.files["/dev/hisi_hdc"] = folder()
    machine.files["/.dockerenv"] = ""


@fault("the driver was upgraded without a reboot", "npu-tool.driver-not-ready")
def _(machine: Machine) -> None:
    machine.npu_smi = tool.NO_DRIVER


@fault("another container holds the device", "npu-tool.device-used")
def _(machine: Machine) -> None:
    machine.files["/.dockerenv"] = ""
    machine.npu_smi = tool.USED


@fault("npu-smi hangs in the driver", "npu-tool.hung")
def _(machine: Machine) -> None:
    machine.npu_smi = CommandResult(tool.INFO, "timeout")
    machine.files.update(process_files(4711, "npu-smi", state="D"))


@fault("an NPU has dropped out", "npu-tool.fewer-devices")
def _(machine: Machine) -> None:
    machine.npu_smi = npu.screen(machine.era, chips=1)


@fault("npu-smi finds no card", "npu-tool.no-card")
def _(machine: Machine) -> None:
    machine.npu_smi = tool.NO_CARD


@fault("npu-smi: no device is ready", "npu-tool.failed")
def _(machine: Machine) -> None:
    machine.npu_smi = tool.NOT_READY


@fault("npu-smi does not find its library", "npu-tool.library-missing")
def _(machine: Machine) -> None:
    machine.npu_smi = tool.NO_LIBRARY


@fault("npu-smi is not mounted into the container", "npu-tool.not-found")
def _(machine: Machine) -> None:
    machine.files["/.dockerenv"] = ""
    machine.npu_smi = None


@fault("an NPU in the state Warning", "npu-health.warning")
def _(machine: Machine) -> None:
    machine.npu_smi = npu.screen(machine.era, health="Warning")


@fault("an NPU in the state Alarm", "npu-health.alarm")
def _(machine: Machine) -> None:
    machine.npu_smi = npu.screen(machine.era, health="Alarm")


@fault("an NPU in the state Critical", "npu-health.critical")
def _(machine: Machine) -> None:
    machine.npu_smi = npu.screen(machine.era, health="Critical")


@fault("another job holds an NPU", "npu-busy.held")
def _(machine: Machine) -> None:
    held = "| 1       0            | 4711          | python3                  | 25033                   |"
    machine.npu_smi = npu.screen(machine.era, used=28400, held=held)
    machine.files.update(process_files(4711, "python3", uid=machine.uid))


@fault("memory of an NPU is in use and nobody holds it", "npu-busy.memory-held")
def _(machine: Machine) -> None:
    machine.npu_smi = npu.screen(machine.era, used=28400)


@fault("a process of the host computes on the container's NPU", "npu-busy.memory-held")
def _(machine: Machine) -> None:
    in_container(machine)
    held = "| 1       0            | 4711          | python3                  | 52900                   |"
    machine.npu_smi = npu.screen(machine.era, used=30000, held=held)


@fault("a blank in the list of NPUs", "device-visibility.cut")
def _(machine: Machine) -> None:
    machine.variables[RT] = "0, 1"


@fault("the list of visible NPUs contains one that does not exist", "device-visibility.no-such-device")
def _(machine: Machine) -> None:
    machine.variables[RT] = "0,1,2"


@fault("the list of NPUs has the numbers of the host", "device-visibility.none-left")
def _(machine: Machine) -> None:
    machine.variables[RT] = "4,5"
    machine.files["/.dockerenv"] = ""


@fault("the list of NPUs does not ascend", "device-visibility.not-ascending")
def _(machine: Machine) -> None:
    machine.variables[RT] = "1,0"


@fault("Slurm gave one NPU and the job sees both", "device-visibility.beyond-slurm")
def _(machine: Machine) -> None:
    machine.variables["SLURM_JOB_GPUS"] = "1"


@fault("the container was not given the NPU that it asked for", "device-visibility.not-given")
def _(machine: Machine) -> None:
    machine.variables["ASCEND_VISIBLE_DEVICES"] = "0-3"
    machine.files["/.dockerenv"] = ""
