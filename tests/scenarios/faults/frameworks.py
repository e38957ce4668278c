"""Faults of torch, MindSpore, vLLM, Paddle, and of what must suit them."""

from __future__ import annotations

from tests.elves import library
from tests.scenarios import python_env
from tests.scenarios.fault import both, cann, fault, kind
from tests.scenarios.machines import Machine

# Their torch_npu goes with every CANN from 8.5 on, which what comes later may do too.
TRAINS = ("8.5.0", "9.0.0", "9.1.0")
TORCH, VLLM, PADDLE = kind("torch", "vllm"), kind("vllm"), kind("paddle")


@fault("torch of another release", "torch-npu.torch-mismatch", kind("torch"))
def _(machine: Machine) -> None:
    old = "2.3.0" if machine.era.numpy.startswith("2") else "1.13.1"  # older ones want another NumPy, too
    machine.install("torch", old if machine.era.torch[0] > "2" else "1.4.0")


@fault("torch is not installed", "torch-npu.torch-missing", TORCH)
def _(machine: Machine) -> None:
    machine.uninstall("torch")
    machine.remove(f"{machine.site}/torch")


@fault(
    "torch_npu of another CANN",
    "torch-npu.cann-not-listed",
    both(kind("torch"), cann("8.0.0", "8.1.RC1", "8.3.RC1", "8.5.0", "9.0.0")),
)
def _(machine: Machine) -> None:
    machine.install("torch-npu", "1.11.0.post4")
    machine.install("torch", "1.11.0")
    machine.install("numpy", "1.26.4")


@fault(
    "torch_npu newer than all known beside an older CANN",
    "torch-npu.cann-not-listed",
    both(kind("torch"), lambda machine: machine.era.cann not in TRAINS),
)
@fault(
    "torch_npu newer than all known",
    "torch-npu.newer-than-table",
    both(kind("torch"), cann(*TRAINS)),
)
def _(machine: Machine) -> None:
    machine.install("torch-npu", "2.99.0", "torch==2.99.0")
    machine.install("torch", "2.99.0")


@fault("torchvision of another torch", "torch-family.mismatch", TORCH)
def _(machine: Machine) -> None:
    machine.install("torchvision", "0.8.0", "torch==1.7.0")


@fault("torchaudio of another torch", "torch-family.mismatch", TORCH)
def _(machine: Machine) -> None:
    machine.install("torchaudio", "2.3.0", "torch==2.3.0")


@fault("triton beside triton-ascend", "torch-family.triton-mixed", TORCH)
def _(machine: Machine) -> None:
    machine.install("triton", "3.2.0")
    machine.install("triton-ascend", "3.2.0")


def _own_list(machine: Machine, *numbers: str) -> None:
    path = next(path for path in machine.files if path.endswith("/_check_version.py"))
    own = ", ".join(f'"{number}"' for number in numbers)
    machine.files[path] = f"class AscendEnvChecker(EnvChecker):\n        self.version = [{own}]\n"


def _unpaired(machine: Machine) -> bool:
    """MindSpore of which no row names this very CANN: then its own list decides."""
    return machine.framework == "mindspore" and not machine.era.cann.startswith(("6", "7", "8.0", "8.1"))


@fault("MindSpore that wants a newer CANN", "mindspore-cann.not-accepted", _unpaired)
def _(machine: Machine) -> None:
    _own_list(machine, "98.0", "99.0")


@fault("MindSpore that wants an older CANN", "mindspore-cann.not-accepted", _unpaired)
def _(machine: Machine) -> None:
    _own_list(machine, "1.70", "1.71")


@fault(
    "MindSpore that no row pairs with this CANN",
    "mindspore-cann.cann-not-listed",
    both(kind("mindspore"), cann("8.1.RC1")),
)
def _(machine: Machine) -> None:
    machine.install("mindspore", "2.4.0", "numpy>=1.17.0", "scipy>=1.5.4")
    machine.remove(f"{machine.site}/mindspore/run_check")


@fault("vllm-ascend beside another torch_npu", "vllm-ascend.unmet-requirement", VLLM)
def _(machine: Machine) -> None:
    machine.install("torch-npu", "2.8.0", "torch==2.9.0")


@fault("vllm-ascend without triton-ascend", "vllm-ascend.unmet-requirement", VLLM)
def _(machine: Machine) -> None:
    machine.uninstall("triton-ascend")


@fault("vllm-ascend without vLLM", "vllm-ascend.vllm-missing", VLLM)
def _(machine: Machine) -> None:
    machine.uninstall("vllm")
    machine.remove(f"{machine.site}/vllm")


@fault("vllm-ascend beside another vLLM", "vllm-ascend.vllm-mismatch", VLLM)
def _(machine: Machine) -> None:
    machine.install("vllm", "0.11.0", "numpy")


@fault("vllm-ascend for another CANN", "vllm-ascend.cann-not-listed", VLLM)
def _(machine: Machine) -> None:
    for path in [path for path in machine.files if "/vllm_ascend-" in path]:
        del machine.files[path]
    machine.install("vllm-ascend", "0.11.0", "torch==2.9.0", "torch-npu==2.9.0")
    machine.install("vllm", "0.11.0", "numpy")


@fault("ATB's script was not sourced", "cann-env.atb-not-sourced", VLLM)
def _(machine: Machine) -> None:
    machine.unset("ATB_HOME_PATH")
    kept = [entry for entry in machine.entries("LD_LIBRARY_PATH") if "/nnal/" not in entry]
    machine.variables["LD_LIBRARY_PATH"] = ":".join(kept)


@fault("ATB is not installed", "nnal-atb.not-found", VLLM)
def _(machine: Machine) -> None:
    machine.remove("/usr/local/Ascend/nnal")


def _abi(machine: Machine, old: str, new: str) -> None:
    path = machine.variables["LD_LIBRARY_PATH"]
    machine.variables["LD_LIBRARY_PATH"] = path.replace(old, new)


@fault("ATB of the other ABI", "nnal-atb.other-abi", VLLM)
def _(machine: Machine) -> None:
    _abi(machine, "cxx_abi_1", "cxx_abi_0")


@fault("ATB of both ABIs", "nnal-atb.both-abis", VLLM)
def _(machine: Machine) -> None:
    machine.variables["LD_LIBRARY_PATH"] += f":{python_env.NNAL}/latest/atb/cxx_abi_0/lib"


@fault("ATB of another release", "nnal-atb.other-version", VLLM)
def _(machine: Machine) -> None:
    machine.files[f"{python_env.NNAL}/{machine.era.cann}/version.info"] = "    Ascend-cann-atb : 8.1.RC1\n"


@fault("ATB without a symbol that is needed", "nnal-atb.undefined-symbols", VLLM)
def _(machine: Machine) -> None:
    for path in [path for path in machine.files if path.endswith("/libatb.so")]:
        machine.files[path] = library(
            "libc.so.6", soname="libatb.so", exports=["_ZN3atb3OldEv"], machine=machine.arch
        )


@fault("Paddle's plug-in without Paddle", "paddle-npu.paddle-missing", PADDLE)
def _(machine: Machine) -> None:
    machine.uninstall("paddlepaddle")
    machine.remove(f"{machine.site}/paddle")


@fault("Paddle's plug-in beside Paddle for GPUs", "paddle-npu.gpu-build", PADDLE)
def _(machine: Machine) -> None:
    machine.uninstall("paddlepaddle")
    machine.install("paddlepaddle-gpu", "3.0.0")


@fault("Paddle's plug-in beside another Paddle", "paddle-npu.other-release", PADDLE)
def _(machine: Machine) -> None:
    machine.install("paddlepaddle", "2.6.1")


@fault(
    "Paddle with OpenBLAS, without the plug-in",
    "paddle-cpu.openblas",
    both(PADDLE, lambda machine: machine.arch == "x86_64"),
)
def _(machine: Machine) -> None:
    machine.uninstall("paddle-custom-npu")


@fault("torchvision without torch", "torch-family.torch-missing", PADDLE)
def _(machine: Machine) -> None:
    machine.install("torchvision", "0.20.1", "torch==2.5.1")


@fault("MindSpore newer than all known", "mindspore-cann.newer-than-table", cann("9.1.0"))
def _(machine: Machine) -> None:
    if machine.framework == "torch":
        machine.uninstall("torch-npu")
    machine.install("mindspore", "9.9.0", "numpy>=1.17.0", "scipy>=1.5.4")
    machine.remove(f"{machine.site}/mindspore/run_check")


@fault("vllm-ascend newer than all known beside an older CANN", "vllm-ascend.cann-not-listed", VLLM)
def _(machine: Machine) -> None:
    machine.uninstall("vllm-ascend")
    machine.remove(f"{machine.site}/vllm_ascend-0.15.0rc1.dist-info")
    machine.install("vllm-ascend", "9.9.0", "torch==2.9.0", "torch-npu==2.9.0")
    machine.install("vllm", "9.9.0", "numpy")
