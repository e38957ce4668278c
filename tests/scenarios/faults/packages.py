"""Faults of the packages in the interpreter: those of CANN, those that it and frameworks need, mixtures."""

from __future__ import annotations

from tests.elves import library
from tests.scenarios import python_env
from tests.scenarios.fault import Where, anywhere, both, cann, fault, kind, layout
from tests.scenarios.faults.cann import in_front
from tests.scenarios.faults.install import OTHER_ARCH
from tests.scenarios.machines import HOME, Machine

MINDSPORE = kind("mindspore")
OLD_COMPONENT = "1.77.22.6.220"


def modules(machine: Machine, package: str) -> list[str]:
    """The extension modules of a package."""
    ending = python_env.extension(machine.era, machine.arch)
    return [
        path
        for path in machine.files
        if path.startswith(f"{machine.site}/{package}/") and path.endswith(ending)
    ]


def of_numpy_1(machine: Machine) -> bool:
    """Whether its torch was built for NumPy 1."""
    return tuple(map(int, machine.era.torch[0].split(".")[:2])) < (2, 3)


def any_numpy(machine: Machine) -> bool:
    """Whether NumPy 2 is not refused by torch already."""
    return machine.framework != "torch" or not of_numpy_1(machine)


def te(machine: Machine, site: str, version: str) -> None:
    """A te of some release in a folder of packages."""
    machine.files.update(python_env.distribution(site, "te", "0.4.0"))
    machine.files[f"{site}/te/__init__.py"] = ""
    machine.files[f"{site}/te/version.py"] = f'version = "{version}"\n'


@fault("te of an older CANN, and PYTHONPATH lost", "te-topi.other-version")
def _(machine: Machine) -> None:
    te(machine, machine.site, OLD_COMPONENT)
    machine.unset("PYTHONPATH")


@fault("te of an older CANN in front", "te-topi.other-version")
def _(machine: Machine) -> None:
    te(machine, "/opt/old/site-packages", OLD_COMPONENT)
    in_front(machine, "PYTHONPATH", "/opt/old/site-packages")


@fault("te of an older CANN behind", "te-topi.shadowed-copy")
def _(machine: Machine) -> None:
    te(machine, machine.site, OLD_COMPONENT)


@fault("te of another build in front", "te-topi.other-build")
def _(machine: Machine) -> None:
    train = ".".join(machine.era.component.split(".")[:2])
    te(machine, "/opt/old/site-packages", f"{train}.9.9.999")
    in_front(machine, "PYTHONPATH", "/opt/old/site-packages")


@fault("hccl of an older CANN in front", "te-topi.other-version")
def _(machine: Machine) -> None:
    site = "/opt/old/site-packages"
    machine.files.update(python_env.distribution(site, "hccl", "0.1.0"))
    machine.files[f"{site}/hccl/__init__.py"] = ""
    machine.files[f"{site}/hccl/sys_version.py"] = f"__sys_version__ = '{OLD_COMPONENT}'\n"
    in_front(machine, "PYTHONPATH", site)


@fault("te is not installed, only its wheel is there", "te-topi.missing", layout("latest", "old"))
def _(machine: Machine) -> None:
    machine.remove(*{path.split("/te/")[0] + "/te" for path in machine.files if "/site-packages/te/" in path})


def _without(
    name: str, why: str = "", code: str = "cann-python-deps.missing", where: Where = anywhere
) -> None:
    def breaks(machine: Machine) -> None:
        machine.uninstall(name)

    fault(f"{name} is not installed{why}", code, where)(breaks)


# There the list of CANN is a warning, and MindSpore's own metadata an error.
_OLD_MINDSPORE = both(kind("mindspore"), cann("5.0.2"))

for _name in ("decorator", "sympy", "cffi", "attrs"):
    _without(_name)
for _name in ("psutil", "protobuf"):
    _without(_name, where=lambda machine: not _OLD_MINDSPORE(machine))
    _without(_name, ", and MindSpore requires it", "package-requirements.missing", _OLD_MINDSPORE)


@fault("sympy is too old", "cann-python-deps.unsuitable", layout("old"))
def _(machine: Machine) -> None:
    machine.install("sympy", "1.4")


@fault("NumPy 2 beside a CANN that cannot use it", "cann-python-deps.numpy-2",
       both(kind("torch", "paddle"), cann("7.0.0", "8.0.0", "8.1.RC1"), any_numpy))  # fmt: skip
def _(machine: Machine) -> None:
    machine.install("numpy", "2.2.6")


@fault("NumPy 2 beside a torch that was built for NumPy 1", "numpy-version.unsuitable",
       both(kind("torch"), of_numpy_1))  # fmt: skip
def _(machine: Machine) -> None:
    machine.install("numpy", "2.2.6")


@fault("NumPy 2 beside a MindSpore that refuses it", "numpy-version.unsuitable",
       both(kind("mindspore", "vllm"),
            lambda machine: machine.era.numpy.startswith("1") and machine.era.cann != "9.1.0"))  # fmt: skip
def _(machine: Machine) -> None:
    machine.install("numpy", "2.2.6")


@fault("NumPy is not installed", "numpy-version.missing", kind("mindspore", "vllm", "paddle"))
def _(machine: Machine) -> None:
    machine.uninstall("numpy")
    machine.remove(f"{machine.site}/numpy")


@fault("SciPy 1.4", "scipy-version.slow-initialisation", MINDSPORE)
def _(machine: Machine) -> None:
    machine.install("scipy", "1.4.1")


@fault("SciPy is too old", "scipy-version.unsuitable", MINDSPORE)
def _(machine: Machine) -> None:
    machine.install("scipy", "1.3.3")


@fault("SciPy is not installed", "scipy-version.missing", MINDSPORE)
def _(machine: Machine) -> None:
    machine.uninstall("scipy")
    machine.remove(f"{machine.site}/scipy")


@fault("MindSpore for GPUs over that for NPUs", "conflicting-packages.two-flavours", MINDSPORE)
def _(machine: Machine) -> None:
    machine.install("mindspore-gpu", "1.10.0", "numpy>=1.17.0", "scipy>=1.5.2")


@fault("an upgrade of NumPy broke off", "package-files.two-versions")
def _(machine: Machine) -> None:
    machine.files.update(python_env.distribution(machine.site, "numpy", "1.20.3"))


@fault("an older NumPy in the user's folder behind", "conflicting-packages.two-copies")
def _(machine: Machine) -> None:
    site = f"{HOME}/.local/lib/python{machine.era.minor}/site-packages"
    machine.files.update(python_env.distribution(site, "numpy", "1.20.3"))


def main_module(machine: Machine) -> str:
    """The extension module without which nothing of the framework works."""
    names = {"mindspore": "mindspore/_c_expression", "paddle": "numpy/core/_multiarray_umath"}
    ending = python_env.extension(machine.era, machine.arch)
    return f"{machine.site}/{names.get(machine.framework, 'torch_npu/_C')}.{ending}"


@fault("a wheel for another processor", "conflicting-packages.other-machine")
def _(machine: Machine) -> None:
    machine.files[main_module(machine)] = library("libc.so.6", machine=OTHER_ARCH[machine.arch])


def of_another_python(machine: Machine, path: str) -> None:
    """An extension module that another CPython can load, and this one cannot."""
    machine.files[path.replace(f"cpython-{machine.era.tag}-", "cpython-38-")] = machine.files.pop(path)


@fault("SciPy for another Python", "conflicting-packages.other-python")
def _(machine: Machine) -> None:
    (path,) = modules(machine, "scipy")
    of_another_python(machine, path)


@fault("NumPy for another processor", "conflicting-packages.other-machine")
def _(machine: Machine) -> None:
    (path,) = modules(machine, "numpy")
    machine.files[path] = library("libc.so.6", machine=OTHER_ARCH[machine.arch])


def _tensorboard(machine: Machine) -> None:
    machine.install("tensorboard", "2.17.1")
    machine.files[f"{machine.site}/tensorboard/default.py"] = "import logging\n\nimport pkg_resources\n"


@fault("TensorBoard without pkg_resources", "setuptools.pkg-resources-gone")
def _(machine: Machine) -> None:
    _tensorboard(machine)
    machine.install("setuptools", "82.0.0")
    machine.remove(f"{machine.site}/pkg_resources")
