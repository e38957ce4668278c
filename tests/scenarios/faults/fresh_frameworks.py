"""What goes wrong between frameworks, their plug-ins and CANN, written from manuals and facts alone."""

from __future__ import annotations

from dataclasses import replace

from tests.scenarios import python_env
from tests.scenarios.eras import ERAS
from tests.scenarios.fault import both, cann, fault, kind
from tests.scenarios.machines import Machine

ON_X86 = lambda machine: machine.arch == "x86_64"  # noqa: E731


def reinstall(machine: Machine, torch: str, npu: str) -> None:
    """Put torch and torch_npu of other releases in place of these."""
    machine.uninstall("torch")
    machine.uninstall("torch-npu")
    machine.files.update(python_env.torch(replace(machine.era, torch=(torch, npu)), machine.arch))


@fault(
    "pip install -U torch",
    "torch-npu.torch-mismatch",
    both(kind("torch"), cann("8.1.RC1", "8.3.RC1", "8.5.0", "9.0.0")),
)
def _(machine: Machine) -> None:
    machine.install(
        "torch", "2.11.0", "typing-extensions", "filelock", "sympy", "networkx", "jinja2", "fsspec"
    )


@fault(
    "torch upgraded beside an old torch_npu that requires nothing",
    "torch-npu.torch-mismatch",
    both(kind("torch"), cann("7.0.0", "6.0.1")),
)
def _(machine: Machine) -> None:
    machine.install("torch", "2.4.1" if machine.era.cann == "7.0.0" else "1.13.1", "typing-extensions")


@fault("torch taken out to be exchanged", "torch-npu.torch-missing", kind("torch"))
def _(machine: Machine) -> None:
    machine.uninstall("torch")
    machine.remove(f"{machine.site}/torch")


@fault(
    "CANN upgraded, torch_npu of CANN 8.1 kept",
    "torch-npu.cann-not-listed",
    both(kind("torch"), cann("8.5.0", "9.0.0")),
)
def _(machine: Machine) -> None:
    reinstall(machine, "2.5.1", "2.5.1")


@fault("torch_npu for CANN 8.5 under CANN 7", "torch-npu.cann-not-listed", both(kind("torch"), cann("7.0.0")))
def _(machine: Machine) -> None:
    reinstall(machine, "2.7.1", "2.7.1.post2")


@fault(
    "torchvision of torch 2.0",
    "torch-family.mismatch",
    both(kind("torch"), cann("8.0.0", "8.1.RC1", "8.3.RC1", "8.5.0")),
)
def _(machine: Machine) -> None:
    machine.install("torchvision", "0.15.1", "numpy", "requests", "torch==2.0.0", "pillow>=5.3.0")


@fault("torchaudio one release behind", "torch-family.mismatch", both(kind("vllm"), cann("8.5.0")))
def _(machine: Machine) -> None:
    machine.install("torchaudio", "2.8.0", "torch==2.8.0")


@fault("vLLM brought triton along", "torch-family.triton-mixed", kind("vllm"))
def _(machine: Machine) -> None:
    machine.install("triton", "3.5.0")


@fault("pip install -U vllm", "vllm-ascend.vllm-mismatch", kind("vllm"))
def _(machine: Machine) -> None:
    machine.install("vllm", "0.18.0", "numpy")


@fault("vLLM uninstalled", "vllm-ascend.vllm-missing", kind("vllm"))
def _(machine: Machine) -> None:
    machine.uninstall("vllm")
    machine.remove(f"{machine.site}/vllm")


@fault("torch and torch_npu one release behind vllm-ascend", "vllm-ascend.unmet-requirement", kind("vllm"))
def _(machine: Machine) -> None:
    reinstall(machine, "2.8.0", "2.8.0.post2")


@fault("triton-ascend not installed", "vllm-ascend.unmet-requirement", kind("vllm"))
def _(machine: Machine) -> None:
    machine.uninstall("triton-ascend")
    machine.remove(f"{machine.site}/triton")


@fault("all but vllm-ascend upgraded from CANN 8.3", "vllm-ascend.cann-not-listed", kind("vllm"))
def _(machine: Machine) -> None:
    reinstall(machine, "2.7.1", "2.7.1.post2")
    machine.install("vllm-ascend", "0.11.0", "torch==2.7.1", "torch-npu==2.7.1.post1", "numpy<2.0.0")
    machine.install("vllm", "0.11.0", "numpy")


@fault("NumPy 2 came with a package of the user's", "numpy-version.unsuitable", kind("vllm"))
def _(machine: Machine) -> None:
    machine.install("numpy", "2.2.6")


@fault(
    "MindSpore 2.8 on a CANN that is too old for it",
    "mindspore-cann.not-accepted",
    both(kind("mindspore"), cann("7.0.0", "8.0.0", "8.1.RC1")),
)
def _(machine: Machine) -> None:
    machine.uninstall("mindspore")
    newer = replace(machine.era, mindspore="2.8.0", accepts=ERAS["8.5.0"].accepts)
    machine.files.update(python_env.mindspore(newer, machine.arch))


@fault(
    "MindSpore 2.2 on a CANN of today",
    "mindspore-cann.not-accepted",
    both(kind("mindspore"), cann("8.3.RC1", "8.5.0", "9.0.0")),
)
def _(machine: Machine) -> None:
    machine.uninstall("mindspore")
    older = replace(machine.era, mindspore="2.2.14", accepts=("7.0", "7.1"))
    machine.files.update(python_env.mindspore(older, machine.arch))


@fault("paddlepaddle-gpu in place of paddlepaddle", "paddle-npu.gpu-build", kind("paddle"))
def _(machine: Machine) -> None:
    machine.uninstall("paddlepaddle")
    machine.install("paddlepaddle-gpu", "3.0.0", "numpy>=1.13")


@fault("Paddle uninstalled, its plug-in left", "paddle-npu.paddle-missing", kind("paddle"))
def _(machine: Machine) -> None:
    machine.uninstall("paddlepaddle")
    machine.remove(f"{machine.site}/paddle")


@fault("Paddle upgraded, its plug-in not", "paddle-npu.other-release", kind("paddle"))
def _(machine: Machine) -> None:
    machine.install("paddlepaddle", "3.2.0", "numpy>=1.21")


@fault("Paddle for CPUs with OpenBLAS", "paddle-cpu.openblas", both(kind("paddle"), ON_X86))
def _(machine: Machine) -> None:
    machine.uninstall("paddle-custom-npu")
    machine.remove(f"{machine.site}/paddle_custom_device")
    machine.files[f"{machine.site}/paddle/version/__init__.py"] = "full_version = '3.0.0'\nwith_mkl = 'OFF'\n"
