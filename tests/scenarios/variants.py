"""Healthy machines that are set up or used in other ways than most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from npudoctor.testing import Memory, folder, interface

from . import cann, network, npu, python_env, system
from .machines import KINDS, Machine, healthy
from .system import HOME, USER

ERAS_OF_VARIANTS = ("5.0.2", "8.1.RC1", "8.5.0")


def of_root(machine: Machine) -> None:
    """Root's own shell."""
    machine.uid = 0
    machine.variables.update(HOME="/root", USER="root")
    machine.files["/root"] = folder(0o700)


def _of_root_with_anothers_python(machine: Machine) -> None:
    """Root in an environment that a user made: it is not started, its folders are read."""
    of_root(machine)
    machine.files[python_env.PREFIX] = folder(0o755, USER)


def in_container(machine: Machine) -> None:
    """As a container sees it: the driver mounted, the firmware not, ports reserved by nobody it could see."""
    machine.files["/.dockerenv"] = ""
    machine.remove("/usr/local/Ascend/firmware", "/etc/ascend_install.info")


def _own_install(machine: Machine) -> None:
    """CANN in the user's home, installed without root."""
    old, new = "/usr/local/Ascend/ascend-toolkit", f"{HOME}/Ascend/ascend-toolkit"
    for path in list(machine.files):
        content = machine.files[path]
        if isinstance(content, str):
            content = content.replace(old, new)
        machine.files[path.replace(old, new)] = content
        if path.startswith(old):
            del machine.files[path]
    machine.remove("/etc/Ascend")
    machine.variables.update({name: value.replace(old, new) for name, value in machine.variables.items()})


def _of_two_nodes(machine: Machine) -> None:
    network.of_two_nodes(machine)


def _of_two_nodes_as_root(machine: Machine) -> None:
    """So that the firewall and the ports of the NPUs are seen."""
    of_root(machine)
    network.of_two_nodes(machine)


def _of_msrun(machine: Machine) -> None:
    """One of four workers that msrun starts on two nodes; the name of the master is looked up."""
    machine.names = {"node1": (network.OURS,)}
    machine.peers = (network.PEER,)
    machine.variables.update(MS_ROLE="MS_WORKER", MS_WORKER_NUM="4", MS_SCHED_HOST="node1")
    machine.variables.update(MS_SCHED_PORT="8118", MS_NODE_ID="0", RANK_SIZE="4", RANK_ID="0", DEVICE_ID="0")


def _in_slurm(machine: Machine) -> None:
    """A step on one of two nodes, with its memory limited by a control group; a slurmstepd looks after it."""
    group = "/system.slice/slurmstepd.scope/job_77/step_0/user/task_0"
    machine.files["/proc/self/cgroup"] = f"0::{group}\n"
    at = f"/sys/fs/cgroup{group.partition('/step_0')[0]}"
    machine.files.update({f"{at}/memory.max": f"{256 << 30}\n", f"{at}/memory.current": f"{9 << 30}\n"})
    machine.files.update(system.process(
        700, "slurmstepd", f"0::{group.partition('/user')[0]}/slurm\n", uid=0, exe="/usr/sbin/slurmstepd",
        argv=("slurmstepd: [77.0]",)))  # fmt: skip
    machine.files.update(system.process(701, "python3", f"0::{group}\n", parent=700))
    machine.variables.update(SLURM_JOB_ID="77", SLURM_JOB_NUM_NODES="2", SLURM_PROCID="0", SLURM_NTASKS="2")
    machine.variables.update(SLURM_LOCALID="0", SLURM_NODEID="0", SLURM_STEP_NUM_NODES="2")


def _in_kubernetes(machine: Machine) -> None:
    """A pod with a network of its own and one of the node's NPUs, which the runtime gave it."""
    in_container(machine)
    machine.remove("/dev/davinci1")
    machine.interfaces = [interface("lo", "127.0.0.1/8"), interface("eth0", "10.244.1.7/24")]
    machine.variables.update(ASCEND_VISIBLE_DEVICES="0", KUBERNETES_SERVICE_HOST="10.96.0.1")
    machine.npu_smi = npu.screen(machine.era, chips=1)
    machine.remove(npu.CONF, npu.TOOL)


def _notebook(machine: Machine) -> None:
    """A kernel of Jupyter, started days ago, holds a device; the shell is one of its terminals."""
    argv = ("python3", "-m", "ipykernel_launcher", "-f", f"{HOME}/.local/share/jupyter/runtime/kernel-1.json")
    machine.files.update(system.process(1300, "jupyter-lab", argv=("python3", "/usr/bin/jupyter-lab")))
    machine.files.update(system.process(1301, "python3", parent=1300, argv=argv, exe=machine.python,
                                        descriptors={3: "/dev/davinci0"}))  # fmt: skip
    machine.variables["JPY_PARENT_PID"] = "1300"


def _without_accelerator(machine: Machine) -> None:
    """No card, no driver; nothing said what is expected."""
    machine.expect = "auto"
    bus = [path for path in machine.files if path.startswith("/sys/bus/pci/devices/")]
    nodes = [path for path in machine.files if path.startswith(("/dev/davinci", "/dev/devmm", "/dev/hisi"))]
    machine.remove(*bus, *nodes, cann.DRIVER, "/usr/local/Ascend/firmware", "/etc/ascend_install.info")
    machine.remove("/sys/bus/pci/drivers/devdrv_device_driver", npu.CONF)
    machine.npu_smi = None
    for argv in [key for key in machine.commands if key[0] == npu.TOOL]:
        del machine.commands[argv]


def _login(machine: Machine) -> None:
    """A login node: the environment of the job's nodes, and none of their devices."""
    _without_accelerator(machine)
    machine.files.update(system.process(5000, "python3", parent=1, argv=("python3", "watch.py")))


def _login_with_job(machine: Machine) -> None:
    """A login node in whose shell the variables of the job are set, to be handed on by sbatch."""
    _login(machine)
    network.of_two_nodes(machine)
    machine.peers = ()
    machine.variables.update(MASTER_ADDR=network.PEER, HCCL_SOCKET_IFNAME="ib0", GLOO_SOCKET_IFNAME="ib0")
    machine.unset("RANK", "LOCAL_RANK", "RANK_ID", "DEVICE_ID", "LOCAL_WORLD_SIZE")


def _laptop(machine: Machine) -> None:
    """A framework from pip, no CANN, an address by Wi-Fi, little memory and disk."""
    _without_accelerator(machine)
    machine.remove("/usr/local/Ascend", "/etc/Ascend")
    machine.variables = {name: machine.variables[name] for name in ("HOME", "USER", "LANG")}
    machine.variables["PATH"] = f"{python_env.PREFIX}/bin:/usr/bin:/bin"
    machine.uninstall("torch-npu")
    machine.uninstall("mindspore")
    machine.remove(f"{machine.site}/torch_npu", f"{machine.site}/mindspore")
    machine.interfaces = [interface("lo", "127.0.0.1/8"), interface("wlan0", "192.168.1.20/24")]
    machine.memory = Memory(16_000_000 << 10, 6_000_000 << 10)


VARIANTS = {
    "root": of_root,
    "root, Python of another": _of_root_with_anothers_python,
    "container": in_container,
    "home": _own_install,
    "two nodes": _of_two_nodes,
    "two nodes, root": _of_two_nodes_as_root,
    "msrun": _of_msrun,
    "Slurm": _in_slurm,
    "Kubernetes": _in_kubernetes,
    "notebook": _notebook,
}
# Nobody can say of these whether they are ready for a job on NPUs: that is all that is not known of them.
ELSEWHERE = {"login": _login, "login, job": _login_with_job, "laptop": _laptop}


def variants() -> list[Machine]:
    """Machines of some eras that are set up in other ways, and images of each era and framework."""
    return [*_made(VARIANTS), *images()]


def images() -> list[Machine]:
    """Images that are being made: no variable, nothing that runs."""
    made = []
    for version, framework in KINDS:
        machine = healthy(version, "aarch64", framework)
        of_root(machine)
        machine.image, machine.word = True, "image"
        made.append(machine)
    return made


def elsewhere() -> list[Machine]:
    """Healthy machines without an accelerator."""
    return _made(ELSEWHERE)


def _made(changes: Mapping[str, Callable[[Machine], None]]) -> list[Machine]:
    made = []
    for word, change in changes.items():
        for version in ERAS_OF_VARIANTS:
            for framework in ("torch", "mindspore"):
                machine = healthy(version, "aarch64", framework)
                change(machine)
                machine.word = word
                made.append(machine)
    return made
