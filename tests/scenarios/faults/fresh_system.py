"""What goes wrong with the system's libraries and compiler, written from manuals and facts alone."""

from __future__ import annotations

from tests.elves import library
from tests.scenarios import python_env
from tests.scenarios.fault import both, fault, kind
from tests.scenarios.faults.fresh import MODERN
from tests.scenarios.machines import Machine
from tests.scenarios.python_env import SYSTEM, executable, extension

from npudoctor.testing import link


@fault(
    "cache server wants a libpython that nobody has", "libpython.not-found", both(kind("mindspore"), MODERN)
)
def _(machine: Machine) -> None:
    wanted = f"libpython{machine.era.minor}{'m' if machine.era.minor == '3.7' else ''}.so.1.0"
    server = library(
        wanted,
        "libc.so.6",
        interpreter=python_env.LINUX[machine.arch],
        rpath="$ORIGIN/../lib",
        machine=machine.arch,
    )
    old = machine.era.cann.startswith("6")
    names = ("bin/cache_server", "bin/cache_admin") if old else (
        "utils/bin/dataset-cache", "utils/bin/dataset-cache-server")  # fmt: skip
    for name in names:
        machine.files[f"{machine.site}/mindspore/{name}"] = executable(server)
    machine.variables["MS_CACHE_HOST"] = "127.0.0.1"


@fault("Ubuntu 16.04 under a wheel for newer systems", "libstdcxx.glibc-too-old", kind("torch", "mindspore"))
def _(machine: Machine) -> None:
    lib = SYSTEM[machine.arch]
    for name in ("libc.so.6", "libm.so.6"):
        machine.files[f"{lib}/{name}"] = library(
            soname=name, machine=machine.arch, defines=("GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.23")
        )
    package = "torch" if machine.framework == "torch" else "mindspore"
    path = f"{machine.site}/{package}/_C" if package == "torch" else f"{machine.site}/{package}/_c_expression"
    machine.files[f"{path}.{extension(machine.era, machine.arch)}"] = library(
        "libm.so.6", "libc.so.6", wants={"libm.so.6": ["GLIBC_2.27"]}, machine=machine.arch
    )


@fault("lib folder of an old conda first", "libstdcxx.too-old", kind("torch", "mindspore", "vllm"))
def _(machine: Machine) -> None:
    machine.files["/opt/conda/lib/libstdc++.so.6"] = library(
        "libc.so.6", soname="libstdc++.so.6", machine=machine.arch, defines=("GLIBCXX_3.4", "GLIBCXX_3.4.20")
    )
    machine.variables["LD_LIBRARY_PATH"] = f"/opt/conda/lib:{machine.variables['LD_LIBRARY_PATH']}"


@fault("g++ 4.8 of CentOS 7", "libstdcxx.compiler-too-old", kind("torch", "mindspore"))
def _(machine: Machine) -> None:
    name = f"{machine.arch}-redhat-linux"
    machine.files[f"/usr/bin/{name}-g++"] = machine.files["/usr/bin/g++"]
    machine.files[f"/usr/lib/gcc/{name}/4.8.2/libgcc.a"] = ""
    machine.files[f"/usr/lib/gcc/{name}/4.8.2/libstdc++.so"] = ""
    machine.files[f"/usr/lib/gcc/{name}/4.8.5"] = link("4.8.2")
    machine.files[f"/usr/libexec/gcc/{name}/4.8.2/cc1plus"] = executable(
        library("libc.so.6", machine=machine.arch)
    )
    machine.files[f"/usr/libexec/gcc/{name}/4.8.5"] = link("4.8.2")


@fault("a slim image without a compiler", "libstdcxx.compiler-missing", kind("torch", "mindspore"))
def _(machine: Machine) -> None:
    machine.remove("/usr/bin/g++")
