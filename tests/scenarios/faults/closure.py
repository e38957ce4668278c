"""What breaks the import of a framework: what it requires, its files, what it loads by itself."""

from __future__ import annotations

from tests.scenarios.fault import both, cann, fault, kind
from tests.scenarios.machines import Machine
from tests.scenarios.pythons import VENV

from npudoctor.testing import link


@fault("typing_extensions is not installed", "package-requirements.missing", kind("torch", "vllm"))
def _(machine: Machine) -> None:
    machine.uninstall("typing_extensions")


@fault("what a requirement requires is not installed", "package-requirements.missing", kind("torch"))
def _(machine: Machine) -> None:
    machine.install("typing_extensions", "4.12.2", "one-more")


@fault("asttokens older than MindSpore requires", "package-requirements.unsuitable", kind("mindspore"))
def _(machine: Machine) -> None:
    machine.install("asttokens", "1.9")


@fault(
    "MindSpore 2.10.0 beside NumPy 2",
    "package-requirements.unsuitable",
    both(kind("mindspore"), cann("9.1.0")),
)
def _(machine: Machine) -> None:
    machine.install("numpy", "2.1.3")


@fault("half of the framework was removed", "package-files.missing")
def _(machine: Machine) -> None:
    _record(machine, "gone.py", 9)


@fault("the disk was full when the framework was installed", "package-files.cut-short")
def _(machine: Machine) -> None:
    _record(machine, "short.py", 99)
    machine.files[f"{machine.site}/torch/short.py"] = ""


def _record(machine: Machine, name: str, size: int) -> None:
    info = next(path for path in machine.files if path.endswith("/METADATA") and _is_framework(path))
    machine.files[info.replace("METADATA", "RECORD")] = f"torch/{name},sha256=x,{size}\n"


def _is_framework(path: str) -> bool:
    return path.rsplit("/", 2)[1].startswith(("torch-", "mindspore-", "mindspore_ascend-", "paddlepaddle-"))


@fault("protobuf is asked for what it does not have", "protobuf-implementation.not-there")
def _(machine: Machine) -> None:
    machine.variables["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "cpp"


@fault("the Python of the environment was removed", "virtual-environment.base-missing", kind("torch"))
def _(machine: Machine) -> None:
    machine.variables["VIRTUAL_ENV"] = VENV
    machine.files[f"{VENV}/pyvenv.cfg"] = "home = /opt/gone/bin\n"
    machine.files[f"{VENV}/bin/python3"] = link("/opt/gone/bin/python3")


@fault(
    "torch loads torch_npu without CANN, which is not expected",
    "torch-npu.cann-missing",
    both(kind("torch"), cann("8.3.RC1")),
)
def _(machine: Machine) -> None:
    machine.expect = "none"
    machine.unset("LD_LIBRARY_PATH")
