"""What goes wrong with Python, its packages and libraries, written from manuals and facts alone."""

from __future__ import annotations

from tests.elves import library
from tests.scenarios import python_env
from tests.scenarios.eras import ERAS
from tests.scenarios.fault import both, cann, fault, kind
from tests.scenarios.faults.fresh import MODERN, local
from tests.scenarios.machines import Machine, healthy
from tests.scenarios.python_env import distribution, executable, extension

from npudoctor.testing import link

NPU = kind("torch", "mindspore", "vllm")
ON_X86 = lambda machine: machine.arch == "x86_64"  # noqa: E731


def other(machine: Machine) -> str:
    """The processor that this machine does not have."""
    return "x86_64" if machine.arch == "aarch64" else "aarch64"


def rename(machine: Machine, package: str, old: str, new: str) -> None:
    """Give the extension modules of a package the ending of another Python."""
    for path in [path for path in machine.files if path.startswith(f"{machine.site}/{package}/")]:
        if old in path:
            machine.files[path.replace(old, new)] = machine.files.pop(path)


@fault(
    "MindSpore's none-any wheel, which holds aarch64",
    "conflicting-packages.other-machine",
    both(kind("mindspore"), ON_X86),
)
def _(machine: Machine) -> None:
    machine.remove(f"{machine.site}/mindspore")
    wheel = python_env.mindspore(machine.era, "aarch64")
    machine.files.update({path: content for path, content in wheel.items() if "/mindspore/" in path})


@fault(
    "site-packages copied from a node with other processors",
    "conflicting-packages.other-machine",
    kind("torch"),
)
def _(machine: Machine) -> None:
    machine.remove(f"{machine.site}/torch", f"{machine.site}/torch_npu")
    machine.files.update(python_env.torch(machine.era, other(machine)))


@fault("numpy built for another Python", "conflicting-packages.other-python", NPU)
def _(machine: Machine) -> None:
    rename(machine, "numpy", f"cpython-{machine.era.tag}-", "cpython-38-")


@fault(
    "MindSpore for GPU installed over the one for Ascend",
    "conflicting-packages.two-flavours",
    kind("mindspore"),
)
def _(machine: Machine) -> None:
    version = machine.era.mindspore
    machine.files.update(
        distribution(machine.site, "mindspore-gpu", version, "numpy>=1.17.0", "scipy>=1.5.2")
    )


@fault("pip killed while it upgraded numpy", "package-files.two-versions", NPU)
def _(machine: Machine) -> None:
    machine.files.update(distribution(machine.site, "numpy", "1.19.5"))


@fault("another scipy with pip --user", "conflicting-packages.two-copies", NPU)
def _(machine: Machine) -> None:
    machine.files.update(distribution(local(machine), "scipy", "1.10.1", "numpy<2.5,>=1.16.5"))
    machine.files[f"{local(machine)}/scipy/__init__.py"] = ""


@fault(
    "another torch in ~/.local wins",
    "torch-npu.torch-mismatch",
    both(kind("torch"), cann("8.1.RC1", "8.3.RC1", "8.5.0", "9.0.0")),
)
def _(machine: Machine) -> None:
    files = python_env.torch(ERAS["8.0.0"], machine.arch)
    ending, old = extension(machine.era, machine.arch), extension(ERAS["8.0.0"], machine.arch)
    for path, content in files.items():
        name = path.split("site-packages/", 1)[1]
        if name.startswith(("torch/", "torch-")):
            machine.files[f"{local(machine)}/{name.replace(old, ending)}"] = content


@fault(
    "NumPy 2 in ~/.local wins",
    "numpy-version.unsuitable",
    both(kind("mindspore"), cann("8.3.RC1", "8.5.0", "9.0.0")),
)
def _(machine: Machine) -> None:
    machine.files.update(distribution(local(machine), "numpy", "2.2.6"))
    machine.files[f"{local(machine)}/numpy/__init__.py"] = ""
    ending = extension(machine.era, machine.arch)
    machine.files[f"{local(machine)}/numpy/_core/_multiarray_umath.{ending}"] = library(
        "libc.so.6", machine=machine.arch
    )


@fault(
    "NumPy 2 came with an upgrade, te cannot use it",
    "cann-python-deps.numpy-2",
    both(kind("torch"), cann("8.0.0", "8.1.RC1")),
)
def _(machine: Machine) -> None:
    machine.install("numpy", "2.0.2")


@fault("numpy uninstalled", "numpy-version.missing", both(kind("mindspore"), MODERN))
def _(machine: Machine) -> None:
    machine.uninstall("numpy")
    machine.remove(f"{machine.site}/numpy")


@fault("scipy uninstalled", "scipy-version.missing", both(kind("mindspore"), MODERN))
def _(machine: Machine) -> None:
    machine.uninstall("scipy")
    machine.remove(f"{machine.site}/scipy")


@fault("a new environment without decorator", "cann-python-deps.missing", NPU)
def _(machine: Machine) -> None:
    machine.uninstall("decorator")


@fault(
    "SciPy 1.4.1 of an old requirements.txt",
    "scipy-version.slow-initialisation",
    both(kind("mindspore"), cann("5.0.2", "6.0.1")),
)
def _(machine: Machine) -> None:
    machine.install("scipy", "1.4.1", "numpy>=1.13.3")


@fault("setuptools 82 beside tensorboard 2.19", "setuptools.pkg-resources-gone", NPU)
def _(machine: Machine) -> None:
    machine.remove(f"{machine.site}/pkg_resources")
    machine.install("setuptools", "82.0.0")
    machine.install("tensorboard", "2.19.0", "setuptools>=41.0.0")
    machine.files[f"{machine.site}/tensorboard/__init__.py"] = ""
    machine.files[f"{machine.site}/tensorboard/default.py"] = "import logging\n\nimport pkg_resources\n"


@fault(
    "frameworks left over from another minor of Python", "interpreter.other-abi", kind("torch", "mindspore")
)
def _(machine: Machine) -> None:
    for package in ("torch", "torch_npu", "mindspore"):
        rename(machine, package, f"cpython-{machine.era.tag}-", "cpython-38-")


@fault("the system's Python first on PATH", "interpreter.framework-elsewhere", NPU)
def _(machine: Machine) -> None:
    site, ending = "/usr/lib/python3/dist-packages", "/usr/bin/python3.8"
    machine.files.update(distribution(site, "six", "1.14.0"))
    machine.files[ending] = executable(
        library("libc.so.6", interpreter=python_env.LINUX[machine.arch], machine=machine.arch)
    )
    machine.files["/usr/bin/python3"] = link("python3.8")
    machine.pythons["/usr/bin/python3"] = ("3.8.10", site)
    machine.variables["PATH"] = f"/usr/bin:{machine.variables['PATH']}"


@fault(
    "Python 3.12 under CANN 8.3", "interpreter.cann-range", both(kind("torch", "mindspore"), cann("8.3.RC1"))
)
def _(machine: Machine) -> Machine:
    return healthy(machine.era.cann, machine.arch, machine.framework, "3.12.4")
