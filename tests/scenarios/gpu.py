"""Healthy machines with NVIDIA GPUs: torch with its nvidia-nccl, MindSpore for GPUs of old, Paddle."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Callable

from tests.checks.gpu.test_nccl_version import CALLED, NAME, nccl
from tests.checks.gpu.test_openmpi import mpi

from npudoctor.facts.gpu.nvml import APPS, FORMAT, GPUS, NO_MODULE, SCRIPT
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import Content, device, link

from ..elves import cache, library  # noqa: TID252
from . import network, python_env, system
from .eras import ERAS, Era
from .fault import FAULTS, Breaks, Fault, Where, anywhere
from .machines import HOME, Answers, Machine

ARCH = "x86_64"
LIB = python_env.SYSTEM[ARCH]
FRAMEWORKS = ("torch-gpu", "mindspore-gpu", "paddle-gpu")
DRIVERS = {"torch-gpu": "570.124.06", "mindspore-gpu": "470.57.02", "paddle-gpu": "535.129.03"}
_AS_OF = {"torch-gpu": "9.0.0", "mindspore-gpu": "6.0.1", "paddle-gpu": "8.0.0"}  # the Python of their time


def gpu_machines() -> list[Machine]:
    """One of each framework."""
    return [healthy(name) for name in FRAMEWORKS]


def healthy(framework: str) -> Machine:
    """Two GPUs, their driver, and a framework with all that it wants."""
    era = replace(ERAS[_AS_OF[framework]], cann="0.0")
    files = {
        **system.files(),
        **python_env.program(era, ARCH),
        **python_env.packages(era, ARCH),
        **driver(DRIVERS[framework]),
        **_INSTALLED[framework](era),
    }
    system_wide = [path for path in files if path.startswith(f"{LIB}/") and path.count(".so.") == 1]
    files["/etc/ld.so.cache"] = cache({path.rpartition("/")[2]: path for path in system_wide}, ARCH)
    variables = {"HOME": HOME, "USER": "trainer", "LANG": "C.UTF-8",
                 "PATH": f"{python_env.PREFIX}/bin:/usr/bin:/bin"}  # fmt: skip
    answers: Answers = {network.RULES: network.rules(), **screen()}
    return Machine(era, ARCH, framework, files, variables, expect="gpu", npu_smi=None, commands=answers)


def screen(*apps: str, used: int = 4) -> Answers:
    """What nvidia-smi says of two GPUs; `used`: MiB of the last. nvidia-ml-py is not installed."""
    lines = [
        f"{at}, GPU-{at}, NVIDIA A100, {used if at else 4}, 81920, Disabled, Disabled" for at in range(2)
    ]
    return {
        (sys.executable, "-I", "-W", "ignore", "-c", SCRIPT): CommandResult(
            (sys.executable,), "exited", NO_MODULE
        ),
        ("nvidia-smi", f"--query-gpu={GPUS}", FORMAT): "\n".join(lines) + "\n",
        ("nvidia-smi", f"--query-compute-apps={APPS}", FORMAT): "\n".join(apps),
    }


def driver(version: str, libraries: str = "") -> dict[str, Content]:
    """The kernel's module, the libraries of the driver, and the device nodes."""
    files: dict[str, Content] = {
        "/sys/module/nvidia/version": f"{version}\n",
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue\n",
        **{f"/dev/{name}": device(0o666) for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")},
    }
    for name in ("libcuda", "libnvidia-ml"):
        real = f"{name}.so.{libraries or version}"
        files[f"{LIB}/{name}.so.1"] = link(real)
        files[f"{LIB}/{real}"] = library("libc.so.6", soname=f"{name}.so.1", machine=ARCH)
    for number in range(2):
        card = f"/sys/bus/pci/devices/0000:{number + 0x41:02x}:00.0"
        files[f"{card}/vendor"], files[f"{card}/device"] = "0x10de\n", "0x20b0\n"
        files[f"{card}/class"] = "0x030200\n"
        files[f"{card}/driver"] = link("/sys/bus/pci/drivers/nvidia")
    files["/sys/bus/pci/drivers/nvidia/module"] = ""
    return files


def _torch(era: Era) -> dict[str, Content]:
    at, ending = python_env.site(era), python_env.extension(era, ARCH)
    needs = 'nvidia-nccl-cu12==2.27.5; platform_system == "Linux"'
    files = python_env.distribution(at, "torch", "2.9.0", needs, "typing-extensions", "filelock", "sympy")
    files.update(python_env.distribution(at, "nvidia-nccl-cu12", "2.27.5"))
    files[f"{at}/nvidia/nccl/lib/{NAME}"] = nccl()
    files[f"{at}/torch/__init__.py"] = ""
    files[f"{at}/torch/version.py"] = "__version__ = '2.9.0'\ncuda: Optional[str] = '12.8'\nhip = None\n"
    files[f"{at}/torch/_C.{ending}"] = library("libtorch_cuda.so", "libc.so.6", rpath="$ORIGIN/lib")
    files[f"{at}/torch/lib/libtorch_global_deps.so"] = library("libc.so.6")
    files[f"{at}/torch/lib/libtorch_cuda.so"] = library(
        NAME, imports=CALLED, runpath="$ORIGIN/../../nvidia/nccl/lib:$ORIGIN", soname="libtorch_cuda.so"
    )
    return files


def _mindspore(era: Era) -> dict[str, Content]:
    at, ending = python_env.site(era), python_env.extension(era, ARCH)
    lib = f"{at}/mindspore/lib"
    requires = ("numpy>=1.17.0,<2.0.0", "protobuf>=3.13.0", "scipy>=1.5.4", "psutil>=5.6.1")
    files = python_env.distribution(at, "mindspore-gpu", "1.10.0", *requires)
    files[f"{at}/mindspore/__init__.py"] = ""
    files[f"{at}/mindspore/_c_expression.{ending}"] = library("libc.so.6", rpath="$ORIGIN/lib", machine=ARCH)
    files[f"{lib}/plugin/libmindspore_gpu.so"] = library("libcublas.so.11", "libcudart.so.11.0", "libc.so.6")
    files[f"{lib}/libgpu_collective.so"] = library("libmpi.so.40", NAME, rpath="$ORIGIN", imports=CALLED[:1])
    files[f"{lib}/{NAME}"] = nccl("2.7.6", "11.1")
    for name in ("libcublas.so.11", "libcudart.so.11.0"):
        files[f"{LIB}/{name}"] = library("libc.so.6", soname=name)
    files.update(mpi(lib="lib/x86_64-linux-gnu"))
    return files


def _paddle(era: Era) -> dict[str, Content]:
    at = python_env.site(era)
    files = python_env.distribution(
        at, "paddlepaddle-gpu", "3.0.0", "numpy>=1.13", "nvidia-nccl-cu12==2.27.5"
    )
    files.update(python_env.distribution(at, "nvidia-nccl-cu12", "2.27.5"))
    files[f"{at}/nvidia/nccl/lib/{NAME}"] = nccl()
    files[f"{at}/paddle/__init__.py"] = 'set_flags({"FLAGS_nccl_dir": nccl_lib_path})\n'
    files[f"{at}/paddle/version/__init__.py"] = "full_version    = '3.0.0'\ncuda_version    = '12.3'\n"
    return files


_INSTALLED: dict[str, Callable[[Era], dict[str, Content]]] = {
    "torch-gpu": _torch, "mindspore-gpu": _mindspore, "paddle-gpu": _paddle,
}  # fmt: skip


def on_gpus(name: str, code: str, where: Where = anywhere) -> Callable[[Breaks], Breaks]:
    """Add a fault of machines with GPUs to the table; all others are of machines with NPUs."""

    def add(breaks: Breaks) -> Breaks:
        FAULTS.append(Fault(name, code, breaks, lambda one: one.framework in FRAMEWORKS and where(one)))
        return breaks

    return add
