"""What goes wrong with CANN and its shell, written from manuals and facts alone."""

from __future__ import annotations

from tests.scenarios import cann as trees
from tests.scenarios.fault import both, cann, fault, kind, layout
from tests.scenarios.faults.fresh import MODERN, RECENT, TOOLKIT, beside, close, edit, local, real, swap
from tests.scenarios.machines import HOME, Machine

from npudoctor.testing import Node, link


@fault(
    "an old release removed, parts of latest still lead to it",
    "cann-install.dangling-latest",
    layout("latest"),
)
def _(machine: Machine) -> None:
    for part in ("compiler", "toolkit"):
        machine.files[f"{TOOLKIT}/latest/{part}"] = link(f"../5.1.RC2/{part}")


@fault("folder of CANN removed by hand, its links left", "cann-install.dangling-latest", layout("new"))
def _(machine: Machine) -> None:
    machine.remove(machine.top)


@fault(
    "CANN uninstalled under a shell that had sourced it",
    "cann-install.missing",
    both(MODERN, kind("torch", "vllm")),
)
def _(machine: Machine) -> None:
    machine.remove(TOOLKIT, machine.top, "/usr/local/Ascend/cann", "/etc/Ascend")


@fault("kernels package uninstalled again", "cann-install.kernels-missing", RECENT)
def _(machine: Machine) -> None:
    machine.remove(
        f"{real(machine)}/opp_kernel", f"{TOOLKIT}/latest/opp_kernel", f"{real(machine)}/{trees.TBE}/kernel"
    )


@fault("toolkit upgraded, ops package not installed", "cann-install.kernels-missing", layout("new"))
def _(machine: Machine) -> None:
    machine.remove(
        f"{machine.top}/{machine.arch}-linux/ascend_ops_install.info", f"{machine.top}/{trees.TBE}/kernel"
    )


@fault("toolkit upgraded, kernels of 8.0.RC3 kept", "cann-install.kernels-other-version", cann("8.1.RC1"))
def _(machine: Machine) -> None:
    edit(machine, f"{real(machine)}/opp_kernel/version.info", "7.7.0.1.238", "7.5.0.1.129")


@fault("installed by root under umask 077", "cann-install.not-readable")
def _(machine: Machine) -> None:
    close(machine, machine.top if machine.era.layout == "new" else machine.top.rsplit("/", 1)[0])


@fault("one library of CANN patched, readable by root alone", "cann-install.not-readable")
def _(machine: Machine) -> None:
    path = f"{trees.library_folder(machine.era, machine.arch)}/libascendcl.so"
    content = machine.files[path]
    assert isinstance(content, bytes)
    machine.files[path] = Node(content, permissions=0o600)


@fault("toolkit for the other processor installed", "cann-install.wrong-machine", MODERN)
def _(machine: Machine) -> None:
    other = "x86_64" if machine.arch == "aarch64" else "aarch64"
    machine.remove(TOOLKIT, real(machine))
    machine.files.update(trees.tree(machine.era, other))


@fault("half an upgrade: compiler of another release", "cann-install.mixed-latest", layout("latest"))
def _(machine: Machine) -> None:
    place = beside(machine).rsplit("/", 1)[1]
    for part in ("compiler", "toolkit", "bin"):
        machine.files[f"{TOOLKIT}/latest/{part}"] = link(f"../{place}/{part}")


@fault(
    "job started by cron, which sources nothing", "cann-env.not-sourced", kind("torch", "mindspore", "paddle")
)
def _(machine: Machine) -> None:
    machine.variables.clear()
    machine.variables.update(HOME=HOME, LOGNAME="trainer", PATH="/usr/local/python3/bin:/usr/bin:/bin")
    if machine.era.layout == "latest":
        # The driver's folders are no business of its script: they stand in /etc/environment.
        folders = (f"{trees.DRIVER}/lib64/{name}" for name in ("common", "driver"))
        machine.variables["LD_LIBRARY_PATH"] = ":".join(folders)


@fault("ASCEND_OPP_PATH lost in a wrapper script", "cann-env.unset")
def _(machine: Machine) -> None:
    machine.unset("ASCEND_OPP_PATH")


@fault("quotes kept by docker's --env-file", "cann-env.no-such-path", MODERN)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_OPP_PATH"] = f'"{machine.top}/opp"'


@fault("letters swapped in ASCEND_HOME_PATH", "cann-env.no-such-path", layout("latest"))
def _(machine: Machine) -> None:
    machine.variables["ASCEND_HOME_PATH"] = f"{TOOLKIT}/latets"


@fault(".bashrc still exports the home of CANN 7", "cann-env.mixed-installs", RECENT)
def _(machine: Machine) -> None:
    place = beside(machine)
    machine.variables.update(ASCEND_HOME_PATH=place, ASCEND_TOOLKIT_HOME=place)


@fault(
    ".bashrc puts the Python of CANN 7 first",
    "cann-env.other-install-first",
    RECENT,
)
def _(machine: Machine) -> None:
    place = beside(machine)
    swap(
        machine,
        f"{TOOLKIT}/latest/python",
        f"{place}/python/site-packages:{TOOLKIT}/latest/python",
        "PYTHONPATH",
    )


@fault("compiler of CANN 7 first on PATH", "cann-env.other-install-first", RECENT)
def _(machine: Machine) -> None:
    machine.variables["PATH"] = f"{beside(machine)}/compiler/ccec_compiler/bin:{machine.variables['PATH']}"


@fault("full-width colon in PYTHONPATH", "cann-env.missing-entry", MODERN)
def _(machine: Machine) -> None:
    swap(machine, ":", "：", "PYTHONPATH")


@fault("AICPU path one folder too deep", "aicpu-path.missing", MODERN)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_AICPU_PATH"] = f"{machine.top}/opp"


@fault("AICPU path of the nnae that was removed", "aicpu-path.missing", MODERN)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_AICPU_PATH"] = "/usr/local/Ascend/nnae/latest"


@fault("AICPU path of CANN 7 left in .bashrc", "aicpu-path.other-install", RECENT)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_AICPU_PATH"] = beside(machine)


@fault("te of an old CANN first, in a folder of the user", "te-topi.other-version", MODERN)
def _(machine: Machine) -> None:
    machine.files[f"{HOME}/tbe/te/version.py"] = 'version = "7.2.T11.0.B218"\n'
    machine.files[f"{HOME}/tbe/te/__init__.py"] = ""
    machine.variables["PYTHONPATH"] = f"{HOME}/tbe:{machine.variables['PYTHONPATH']}"


@fault("hccl left behind by the upgrade", "te-topi.other-version")
def _(machine: Machine) -> None:
    path = next(path for path in machine.files if path.endswith("/hccl/sys_version.py"))
    edit(machine, path, machine.era.component, "1.76.22.1.220")


@fault("te of an old CANN installed with pip --user", "te-topi.shadowed-copy", MODERN)
def _(machine: Machine) -> None:
    machine.files[f"{local(machine)}/te/__init__.py"] = ""
    machine.files[f"{local(machine)}/te/version.py"] = 'version = "1.82.22.1.220"\n'
