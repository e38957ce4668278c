"""Faults of machines with NVIDIA GPUs: the driver, NCCL, and the variables of NCCL and Paddle."""

from __future__ import annotations

from tests.checks.gpu.test_nccl_version import CALLED, NAME, nccl
from tests.checks.gpu.test_openmpi import OTHER as OTHER_MPI
from tests.checks.gpu.test_openmpi import mpi
from tests.elves import library
from tests.scenarios import gpu
from tests.scenarios.fault import kind
from tests.scenarios.gpu import LIB, on_gpus
from tests.scenarios.machines import Machine
from tests.scenarios.system import process

from npudoctor.testing import folder

TORCH, MINDSPORE, PADDLE = (kind(f"{name}-gpu") for name in ("torch", "mindspore", "paddle"))
OTHER = "/opt/nccl"


def set_to(name: str, code: str, where: object = TORCH, **variables: str) -> None:
    """A shell with these variables."""

    def breaks(machine: Machine) -> None:
        machine.variables.update(variables)

    on_gpus(name, code, where)(breaks)  # type: ignore[arg-type]


def without(machine: Machine, *names: str) -> None:
    """Take these libraries of the system away."""
    starts = tuple(f"{LIB}/{name}" for name in names)
    machine.remove(*(path for path in machine.files if path.startswith(starts)))


@on_gpus("a driver of before this CUDA", "cuda-driver.too-old")
def _(machine: Machine) -> None:
    without(machine, "libcuda.", "libnvidia")
    machine.files.update(gpu.driver("418.87.00"))


@on_gpus("the driver was updated without a reboot", "cuda-driver.mismatch")
def _(machine: Machine) -> None:
    version = gpu.DRIVERS[machine.framework]
    without(machine, "libcuda.", "libnvidia")
    machine.files.update(gpu.driver(version, "575.57.08"))


@on_gpus("a container without the driver's libraries", "cuda-driver.no-library")
def _(machine: Machine) -> None:
    without(machine, "libcuda.", "libnvidia")
    machine.files["/.dockerenv"] = ""


@on_gpus("the stand-in for builds comes first", "cuda-driver.stub-first")
def _(machine: Machine) -> None:
    machine.files["/usr/local/cuda/lib64/stubs/libcuda.so.1"] = library("libc.so.6", soname="libcuda.so.1")
    machine.variables["LD_LIBRARY_PATH"] = "/usr/local/cuda/lib64/stubs"


@on_gpus("torch was installed without its dependencies", "nccl-version.missing", TORCH)
def _(machine: Machine) -> None:
    machine.uninstall("nvidia-nccl-cu12")
    machine.remove(f"{machine.site}/nvidia")


@on_gpus("an old NCCL of the cluster comes first", "nccl-version.missing-symbols", TORCH)
def _(machine: Machine) -> None:
    machine.files[f"{OTHER}/{NAME}"] = nccl("2.18.1", "12.1", "ncclAllReduce")
    machine.variables["LD_LIBRARY_PATH"] = OTHER


@on_gpus("an older NCCL of the same functions comes first", "nccl-version.too-old", TORCH)
def _(machine: Machine) -> None:
    machine.files[f"{OTHER}/{NAME}"] = nccl("2.26.2")
    machine.variables["LD_LIBRARY_PATH"] = OTHER


@on_gpus("an NCCL of before 2.7 for MindSpore", "nccl-version.too-old", MINDSPORE)
def _(machine: Machine) -> None:
    machine.variables.update(RANK_SIZE="2", LD_LIBRARY_PATH=OTHER)
    machine.remove(f"{machine.site}/mindspore/lib/{NAME}")
    machine.files[f"{OTHER}/{NAME}"] = nccl("2.4.8", "10.1")


@on_gpus("the NCCL of CUDA 13 was installed over that of torch", "nccl-version.overwritten", TORCH)
def _(machine: Machine) -> None:
    machine.install("nvidia-nccl-cu13", "2.28.3")
    machine.files[f"{machine.site}/nvidia/nccl/lib/{NAME}"] = nccl("2.28.3", "13.0")


set_to("a word where torch wants a number", "nccl-env.bad-value", TORCH_NCCL_BLOCKING_WAIT="maybe")
set_to("a semicolon behind NCCL_IB_TIMEOUT", "nccl-env.pasted-punctuation", NCCL_IB_TIMEOUT="22；")
set_to("true where NCCL reads a number", "nccl-env.read-otherwise", NCCL_IB_DISABLE="true")
set_to(
    "half a number for Paddle", "paddle-flags.bad-value", PADDLE, FLAGS_fraction_of_gpu_memory_to_use="0.5x"
)
set_to("quotes about a flag of Paddle", "paddle-flags.pasted-punctuation", PADDLE,
       FLAGS_fraction_of_gpu_memory_to_use="“0.5”")  # fmt: skip
set_to("a GPU that this machine has not", "paddle-flags.no-such-device", PADDLE, FLAGS_selected_gpus="0,5")


@on_gpus("the driver is not loaded", "accelerator.missing")
def _(machine: Machine) -> None:
    machine.remove("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm")


@on_gpus("MindSpore without Open MPI", "openmpi.missing", MINDSPORE)
def _(machine: Machine) -> None:
    without(machine, "libmpi")
    machine.variables["RANK_SIZE"] = "2"


@on_gpus("the mpirun of MPICH comes first", "openmpi.other-mpi", MINDSPORE)
def _(machine: Machine) -> None:
    machine.files.update(OTHER_MPI)
    machine.variables["PATH"] = f"{machine.variables['PATH'].partition(':')[0]}:/opt/mpich/bin:/usr/bin"


@on_gpus("a newer mpirun than the library that is loaded", "openmpi.several", MINDSPORE)
def _(machine: Machine) -> None:
    machine.files.update(mpi("5.0.3", "40.40.3", "/opt/ompi", "lib"))
    machine.variables["PATH"] = f"{machine.variables['PATH'].partition(':')[0]}:/opt/ompi/bin:/usr/bin"


@on_gpus(
    "MindSpore's communication needs a library that nobody has", "gpu-collective.not-loadable", MINDSPORE
)
def _(machine: Machine) -> None:
    lib = f"{machine.site}/mindspore/lib"
    machine.files[f"{lib}/libgpu_collective.so"] = library(
        "libmpi.so.40", NAME, "libibverbs.so.1", rpath="$ORIGIN", imports=CALLED[:1]
    )
    machine.variables["RANK_SIZE"] = "2"


@on_gpus("another job computes on a GPU", "gpu-busy.held")
def _(machine: Machine) -> None:
    machine.commands.update(gpu.screen("GPU-1, 4711, 70000", used=70004))
    machine.files.update(process(4711, "python3", "0::/system.slice/train.service\n"))


@on_gpus("memory of a GPU that no process explains", "gpu-busy.memory-held")
def _(machine: Machine) -> None:
    machine.commands.update(gpu.screen(used=70004))


@on_gpus("a process of the host holds the container's GPU", "gpu-busy.memory-held")
def _(machine: Machine) -> None:
    machine.files["/.dockerenv"] = ""
    machine.commands.update(gpu.screen(used=70004))


set_to("one number of a node with eight GPUs", "gpu-visibility.none-left", CUDA_VISIBLE_DEVICES="7")
set_to("a list of a node with eight GPUs", "gpu-visibility.no-such-device", CUDA_VISIBLE_DEVICES="0,1,2,3")
set_to("a GPU that is named twice", "gpu-visibility.repeated", CUDA_VISIBLE_DEVICES="1,1")
set_to("a shell that hides the GPUs", "gpu-visibility.hidden", CUDA_VISIBLE_DEVICES="")


@on_gpus("a container without nvidia-uvm", "gpu-nodes.missing")
def _(machine: Machine) -> None:
    machine.files["/.dockerenv"] = ""
    machine.remove("/dev/nvidia-uvm")


@on_gpus("a folder in the place of a node", "gpu-nodes.not-a-device")
def _(machine: Machine) -> None:
    machine.files["/dev/nvidiactl"] = folder()
