"""Faults of the machine itself: room, memory, limits, its clock, and what a container was given of it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.checks.device import npu_machine as tool
from tests.scenarios import cann
from tests.scenarios.fault import fault, kind
from tests.scenarios.machines import HOME, Machine

from npudoctor.host.fs.files import Space
from npudoctor.testing import Limit, Memory, folder

MIB, GIB = 1 << 20, 1 << 30
INODES = 1 << 24


def room(name: str, code: str, path: str, space: Space) -> None:
    """A file system with this much room."""

    def breaks(machine: Machine) -> None:
        machine.spaces = {path: space}

    fault(name, code)(breaks)


room("/tmp is full", "disk-space.full", "/tmp", Space(100 * GIB, MIB, INODES, INODES, 2))
room("the home is nearly full", "disk-space.low", HOME, Space(100 * GIB, 500 * MIB, INODES, INODES, 2))
room("/tmp has no inode left", "disk-space.no-inodes", "/tmp", Space(100 * GIB, 50 * GIB, INODES, 0, 2))
room("/tmp has few inodes left", "disk-space.few-inodes", "/tmp", Space(100 * GIB, 50 * GIB, INODES, 900, 2))
SHM = "/dev/shm"
room(
    "a container with docker's /dev/shm", "shm-size.small", SHM, Space(64 * MIB, 60 * MIB, INODES, INODES, 3)
)
room("/dev/shm is nearly full", "shm-size.nearly-full", SHM, Space(64 * GIB, 500 * MIB, INODES, INODES, 3))


@fault("a chroot without /dev/shm", "shm-size.missing")
def _(machine: Machine) -> None:
    machine.remove(SHM)


@fault("the clock began anew without its battery", "clock.wrong")
def _(machine: Machine) -> None:
    machine.now = 86400.0


@fault("1024 open files, as of most distributions", "file-limits.low")
def _(machine: Machine) -> None:
    machine.limits["Max open files"] = Limit(1024, 4096)


@fault("a shell that leaves room for a handful of files", "file-limits.unusable")
def _(machine: Machine) -> None:
    machine.limits["Max open files"] = Limit(6, 1 << 20)


@fault("a shell with ulimit -v, as of an old login script", "memory.address-space")
def _(machine: Machine) -> None:
    # Of the other limits this kernel tells none: import-limits would say the same of a framework.
    files = machine.limits["Max open files"]
    machine.limits = {"Max open files": files, "Max address space": Limit(40960000, None)}


@fault("other jobs have taken the memory of the machine", "memory.nearly-used")
def _(machine: Machine) -> None:
    machine.memory = Memory(512 << 30, 1 << 30)


GROUPS: Mapping[str, tuple[str, str, str]] = {
    "the container": ("0::/\n", "/sys/fs/cgroup", ""),
    "the Slurm job": ("0::/slurm/job_9\n", "/sys/fs/cgroup/slurm/job_9", ""),
}


def limited(word: str, line: str, at: str) -> None:
    """A control group whose memory is used up."""

    def breaks(machine: Machine) -> None:
        machine.files["/proc/self/cgroup"] = line
        machine.files[f"{at}/memory.max"], machine.files[f"{at}/memory.current"] = (
            f"{64 * GIB}\n", f"{63 * GIB}\n")  # fmt: skip

    fault(f"the memory of {word} is used up", "memory.limit-nearly-used")(breaks)


for _word, (_line, _at, _more) in GROUPS.items():
    limited(_word, _line, _at)


@fault("the job's working directory was removed under its shell", "working-directory.gone")
def _(machine: Machine) -> None:
    machine.remove(f"{HOME}/job")


@fault("the job is started in a folder of root", "working-directory.not-writable")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/job"] = folder(0o755, 0)


def read_only(point: str) -> None:
    """A file system that is mounted read-only."""

    def breaks(machine: Machine) -> None:
        machine.files["/proc/self/mountinfo"] = (
            f"21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n40 21 0:40 / {point} ro,nosuid - tmpfs tmpfs rw\n"
        )

    fault(f"{point} is mounted read-only", "temporary-folders.not-writable")(breaks)


read_only("/tmp")
read_only(SHM)


@fault("/tmp lost its mode", "temporary-folders.not-writable", lambda machine: machine.uid != 0)
def _(machine: Machine) -> None:
    machine.files["/tmp"] = folder(0o755)


@fault("root started the first cache server", "temporary-folders.mindspore-closed", kind("mindspore"))
def _(machine: Machine) -> None:
    machine.files["/tmp/mindspore"] = folder(0o700)
    machine.variables["MS_CACHE_PORT"] = "50052"


@fault("the driver was not mounted into the container", "container-mounts.driver")
def _(machine: Machine) -> None:
    machine.files["/.dockerenv"] = ""
    machine.remove(cann.ASCEND, "/etc/ascend_install.info", "/etc/Ascend")
    machine.remove(*(path for path in machine.files if path.startswith(machine.site)))
    machine.variables = {name: machine.variables[name] for name in ("HOME", "USER", "PATH")}
    machine.npu_smi = None


@fault("npu-smi refuses a user who may use the devices", "npu-tool.no-rights")
def _(machine: Machine) -> None:
    machine.npu_smi = tool.NO_RIGHTS
