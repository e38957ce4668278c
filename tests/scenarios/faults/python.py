"""Faults of the interpreter, of what hides its modules, and of the libraries of C, C++ and Python."""

from __future__ import annotations

from tests.elves import library
from tests.scenarios import python_env
from tests.scenarios.fault import both, cann, fault, kind
from tests.scenarios.faults.cann import in_front
from tests.scenarios.faults.packages import MINDSPORE, main_module, of_another_python
from tests.scenarios.machines import HOME, Machine, healthy

from npudoctor.testing import OUR_PID, folder, link, process_files

TORCH = kind("torch", "vllm")


@fault("a framework for another Python", "interpreter.other-abi", kind("torch", "mindspore", "vllm"))
def _(machine: Machine) -> None:
    of_another_python(machine, main_module(machine))


@fault("PYTHONPATH hides NumPy", "source-shadowing.package")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/src/numpy/__init__.py"] = ""
    in_front(machine, "PYTHONPATH", f"{HOME}/src")


@fault("PYTHONPATH hides random", "source-shadowing.standard-library")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/src/random.py"] = ""
    in_front(machine, "PYTHONPATH", f"{HOME}/src")


@fault("the working directory hides SciPy", "source-shadowing.package")
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/job/scipy/__init__.py"] = ""


def _embedding(machine: Machine, soname: str) -> None:
    """The programs of MindSpore's cache server, which load a Python of their own."""
    loader = python_env.LINUX[machine.arch]
    for name in ("cache_server", "cache_admin", "dataset-cache", "dataset-cache-server"):
        machine.files[f"{machine.site}/mindspore/bin/{name}"] = library(
            soname, "libc.so.6", interpreter=loader, machine=machine.arch
        )


@fault("the cache server does not find libpython", "libpython.not-found", MINDSPORE)
def _(machine: Machine) -> None:
    _embedding(machine, next(path for path in machine.files if "/libpython" in path).rpartition("/")[2])


@fault("conda's older libstdc++ in front", "libstdcxx.too-old")
def _(machine: Machine) -> None:
    machine.files["/opt/conda/lib/libstdc++.so.6"] = library(
        "libc.so.6", soname="libstdc++.so.6", machine=machine.arch, defines=["GLIBCXX_3.4", "CXXABI_1.3"]
    )
    in_front(machine, "LD_LIBRARY_PATH", "/opt/conda/lib")


@fault("the system's libstdc++ is too old", "libstdcxx.too-old")
def _(machine: Machine) -> None:
    machine.files[f"{python_env.SYSTEM[machine.arch]}/libstdc++.so.6"] = library(
        "libc.so.6", soname="libstdc++.so.6", machine=machine.arch, defines=["GLIBCXX_3.4", "CXXABI_1.3"]
    )


@fault("the system's C library is too old", "libstdcxx.glibc-too-old")
def _(machine: Machine) -> None:
    machine.files[f"{python_env.SYSTEM[machine.arch]}/libc.so.6"] = library(
        soname="libc.so.6", machine=machine.arch, defines=["GLIBC_2.2.5", "GLIBC_2.12"]
    )


@fault("no compiler", "libstdcxx.compiler-missing")
def _(machine: Machine) -> None:
    machine.remove("/usr/bin/g++")


@fault("a Python that this CANN is not for", "interpreter.cann-range", cann("8.3.RC1"))
def _(machine: Machine) -> Machine:
    return healthy(machine.era.cann, machine.arch, machine.framework, python="3.13.1")


@fault("another python3 comes first on PATH", "interpreter.framework-elsewhere")
def _(machine: Machine) -> None:
    site = f"/usr/lib/python{machine.era.minor}/site-packages"
    loader = python_env.LINUX[machine.arch]
    own = library("libc.so.6", interpreter=loader, machine=machine.arch)
    machine.files[f"/usr/bin/python{machine.era.minor}"] = python_env.executable(own)
    machine.files["/usr/bin/python3"] = link(f"python{machine.era.minor}")
    machine.files[site] = folder()
    machine.pythons["/usr/bin/python3"] = (machine.era.python, site)
    in_front(machine, "PATH", "/usr/bin")


@fault("the cache server was built for another Python", "libpython.other-version", MINDSPORE)
def _(machine: Machine) -> None:
    _embedding(machine, "libpython3.5m.so.1.0")


@fault("the kernel of the notebook is another environment's", "interpreter.notebook-kernel")
def _(machine: Machine) -> None:
    kernel, ours = "/opt/kernel/bin/python3", OUR_PID
    machine.files[kernel] = python_env.executable(b"")
    machine.files.update(process_files(ours, parent=790, uid=machine.uid))
    argv = [kernel, "-m", "ipykernel_launcher", "-f", "kernel.json"]
    machine.files.update(process_files(790, parent=780, argv=argv, exe=kernel, uid=machine.uid))
    machine.files.update(process_files(780, argv=["/usr/bin/python3", "jupyter-lab"], uid=machine.uid))
    machine.variables["JPY_PARENT_PID"] = "780"


@fault("libgomp is not installed", "library-path.not-found")
def _(machine: Machine) -> None:
    machine.remove(f"{python_env.SYSTEM[machine.arch]}/libgomp.so.1")


def _arm(machine: Machine) -> bool:
    return machine.arch == "aarch64"


@fault("a second libgomp on an old system", "libstdcxx.static-tls", both(TORCH, _arm))
def _(machine: Machine) -> None:
    for name in ("libc.so.6", "libm.so.6"):
        path = f"{python_env.SYSTEM[machine.arch]}/{name}"
        needed = () if name == "libc.so.6" else ("libc.so.6",)
        machine.files[path] = library(
            *needed, soname=name, machine=machine.arch, defines=python_env.GLIBC[:3]
        )
    brought = "libgomp-0f9e2209.so.1.0.0"
    machine.files[f"{machine.site}/torch.libs/{brought}"] = library(
        "libc.so.6", soname=brought, machine=machine.arch
    )
    machine.files[f"{machine.site}/torch/lib/libc10.so"] = library(
        brought, soname="libc10.so", rpath="$ORIGIN/../../torch.libs", machine=machine.arch
    )
    own = library("libc.so.6", soname="libgomp.so.1", machine=machine.arch)
    machine.files[f"{python_env.PREFIX}/lib/libgomp.so.1"] = own
