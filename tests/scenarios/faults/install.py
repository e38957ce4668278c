"""Faults of CANN's installation, and of where the loader looks."""

from __future__ import annotations

from tests.elves import library
from tests.scenarios import cann as build
from tests.scenarios.fault import cann, fault
from tests.scenarios.faults.cann import DRIVERS, LATER, LATEST, NEW, OTHER, in_front, second, unsource
from tests.scenarios.machines import Machine
from tests.scenarios.python_env import PREFIX

from npudoctor.testing import Node, folder, link, unreadable

OTHER_ARCH = {"x86_64": "aarch64", "aarch64": "x86_64"}


def _uninstall(machine: Machine) -> None:
    roots = ("nnae", "ascend-toolkit", "cann", f"cann-{machine.era.cann}")
    machine.remove(*(f"{build.ASCEND}/{name}" for name in roots), "/etc/Ascend")


@fault("CANN is not installed", "cann-install.missing")
def _(machine: Machine) -> None:
    _uninstall(machine)
    unsource(machine, DRIVERS)


@fault("CANN was removed, its variables stayed", "cann-install.missing")
def _(machine: Machine) -> None:
    _uninstall(machine)


@fault("CANN is root's alone", "cann-install.not-readable")
def _(machine: Machine) -> None:
    top = machine.top.rpartition("/")[0] if machine.era.layout != "new" else machine.top
    machine.remove(top)
    machine.files[top] = unreadable()


@fault("latest leads nowhere", "cann-install.dangling-latest", LATEST)
def _(machine: Machine) -> None:
    machine.remove(f"{build.ASCEND}/ascend-toolkit/{machine.era.cann}")


@fault("cann leads nowhere, and is named", "cann-install.dangling-latest", NEW)
def _(machine: Machine) -> None:
    machine.remove(machine.top)


@fault("latest of two releases", "cann-install.mixed-latest", LATEST)
def _(machine: Machine) -> None:
    second(machine)
    machine.files[f"{machine.top}/compiler"] = link(f"{OTHER}/compiler")


@fault("no kernels package", "cann-install.kernels-missing", cann("8.0.0", "8.1.RC1", "8.3.RC1"))
def _(machine: Machine) -> None:
    machine.remove(
        f"{machine.top}/opp_kernel", f"{build.ASCEND}/ascend-toolkit/{machine.era.cann}/opp_kernel"
    )


@fault("no ops package", "cann-install.kernels-missing", NEW)
def _(machine: Machine) -> None:
    machine.remove(f"{machine.top}/{machine.arch}-linux/ascend_ops_install.info")


@fault(
    "kernels package of another release",
    "cann-install.kernels-other-version",
    cann("8.0.0", "8.1.RC1", "8.3.RC1"),
)
def _(machine: Machine) -> None:
    path = f"{build.ASCEND}/ascend-toolkit/{machine.era.cann}/opp_kernel/version.info"
    machine.files[path] = "Version=7.2.0.1.231\n"


@fault("ops package of another release", "cann-install.kernels-other-version", NEW)
def _(machine: Machine) -> None:
    path = f"{machine.top}/{machine.arch}-linux/ascend_ops_install.info"
    machine.files[path] = "package_name=Ascend-cann-910b-ops\nversion=8.3.RC1\n"


@fault("CANN for another processor", "cann-install.wrong-machine")
def _(machine: Machine) -> None:
    lib = build.library_folder(machine.era, machine.arch)
    for name in build.LIBRARIES:
        machine.files[f"{lib}/{name}"] = library(soname=name, machine=OTHER_ARCH[machine.arch])


@fault("kernels of another chip", "soc-match.other-chip", LATER)
def _(machine: Machine) -> None:
    for path in [path for path in machine.files if f"/{build.TBE}/kernel/" in path]:
        del machine.files[path]
        machine.files[f"{path.rpartition('/')[0]}/ascend310p"] = folder()
    if machine.era.layout == "new":
        path = f"{machine.top}/{machine.arch}-linux/ascend_ops_install.info"
        machine.files[path] = f"package_name=Ascend-cann-310p-ops\nversion={machine.era.cann}\n"


@fault("another chip than CANN's kernels are for", "soc-match.perhaps-other-chip", LATER)
def _(machine: Machine) -> None:
    for path in [path for path in machine.files if path.endswith(":00.0/device")]:
        machine.files[path] = "0xd803\n"


@fault("libraries of CANN not on the path", "library-path.not-found")
def _(machine: Machine) -> None:
    machine.variables["LD_LIBRARY_PATH"] = DRIVERS


@fault("LD_LIBRARY_PATH overwritten", "library-path.not-found")
def _(machine: Machine) -> None:
    machine.variables["LD_LIBRARY_PATH"] = "/usr/local/cuda/lib64"


@fault("LD_LIBRARY_PATH unset", "library-path.not-found")
def _(machine: Machine) -> None:
    machine.unset("LD_LIBRARY_PATH")


@fault("libhccl.so is gone", "library-path.not-found")
def _(machine: Machine) -> None:
    del machine.files[f"{build.library_folder(machine.era, machine.arch)}/libhccl.so"]


@fault("libhccl.so is cut off", "library-path.broken")
def _(machine: Machine) -> None:
    machine.files[f"{build.library_folder(machine.era, machine.arch)}/libhccl.so"] = b""


@fault("libge_runner.so is a text", "library-path.broken")
def _(machine: Machine) -> None:
    path = f"{build.library_folder(machine.era, machine.arch)}/libge_runner.so"
    machine.files[path] = "version https://git-lfs.github.com/spec/v1\n"


@fault("stand-ins in front", "library-path.stub-first", LATER)
def _(machine: Machine) -> None:
    real = build.library_folder(machine.era, machine.arch).rpartition("/")[0]
    for name in (*build.LIBRARIES, "libascend_hal.so"):
        machine.files[f"{real}/devlib/{name}"] = library(soname=name, machine=machine.arch)
    in_front(machine, "LD_LIBRARY_PATH", f"{real}/devlib")


@fault("libraries of another release in front", "library-path.other-cann", LATER)
def _(machine: Machine) -> None:
    second(machine)
    in_front(machine, "LD_LIBRARY_PATH", f"{OTHER}/lib64")


@fault("what a removed release left in front", "library-path.outside-cann", LATER)
def _(machine: Machine) -> None:
    place = "/usr/local/Ascend/ascend-toolkit/6.2.RC9/lib64"
    machine.files[f"{place}/libhccl.so"] = library("libc.so.6", soname="libhccl.so", machine=machine.arch)
    in_front(machine, "LD_LIBRARY_PATH", place)


@fault("a copy of a library in an environment's folder", "library-path.outside-cann")
def _(machine: Machine) -> None:
    place = f"{PREFIX}/lib"
    machine.files[f"{place}/libascendcl.so"] = library(soname="libascendcl.so", machine=machine.arch)
    in_front(machine, "LD_LIBRARY_PATH", place)


@fault("libraries of another release behind", "library-path.other-cann", LATER)
def _(machine: Machine) -> None:
    second(machine)
    machine.variables["LD_LIBRARY_PATH"] += f":{OTHER}/lib64"


@fault("a library in the working directory", "library-path.working-directory")
def _(machine: Machine) -> None:
    machine.files["/home/trainer/job/libascendcl.so"] = library(soname="libascendcl.so", machine=machine.arch)
    in_front(machine, "LD_LIBRARY_PATH", "")


@fault("everybody may write where the loader looks", "library-path.working-directory")
def _(machine: Machine) -> None:
    machine.files["/home/trainer/job"] = Node(kind=0o040000, permissions=0o777, uid=1000)
    machine.variables["LD_LIBRARY_PATH"] += ":"
