"""Faults of the variables that CANN's own script sets."""

from __future__ import annotations

from dataclasses import replace

from tests.scenarios import cann as build
from tests.scenarios.eras import ERAS
from tests.scenarios.fault import both, cann, fault, kind, layout
from tests.scenarios.machines import Machine

NAMES = (
    "ASCEND_HOME",
    "ASCEND_HOME_PATH",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_OPP_PATH",
    "ASCEND_AICPU_PATH",
    "TOOLCHAIN_HOME",
    "CMAKE_PREFIX_PATH",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
)
LATER = layout("latest", "new")
LATEST, NEW, OLD = layout("latest"), layout("new"), layout("old")
OTHER = "/opt/Ascend/ascend-toolkit/8.2.RC1"
GONE = "/usr/local/Ascend/ascend-toolkit/7.0.RC2"
DRIVERS = f"{build.DRIVER}/lib64:{build.DRIVER}/lib64/common:{build.DRIVER}/lib64/driver"


def unsource(machine: Machine, libraries: str = "") -> None:
    """The shell before any script of CANN was sourced."""
    machine.unset(*NAMES)
    machine.variables["PATH"] = ":".join(
        entry for entry in machine.entries("PATH") if not entry.startswith(build.ASCEND)
    )
    if libraries:
        machine.variables["LD_LIBRARY_PATH"] = libraries


def second(machine: Machine) -> None:
    """Another release, whole, beside the one in use."""
    era = replace(ERAS["8.1.RC1"], cann="8.2.RC1", component="8.2.0.0.201")
    for path, content in build.tree(era, machine.arch).items():
        if path.startswith("/usr/local/Ascend/ascend-toolkit/8.2.RC1"):
            machine.files[path.replace("/usr/local/", "/opt/")] = content


def in_front(machine: Machine, name: str, *folders: str) -> None:
    """Put folders before all others of a list."""
    machine.variables[name] = ":".join([*folders, *machine.entries(name)])


@fault("no script sourced", "cann-env.not-sourced")
def _(machine: Machine) -> None:
    # Up to 8.3 it is not CANN's script that brings the driver's folders, but one of the machine's own.
    unsource(machine, DRIVERS if machine.era.layout == "latest" else "")


@fault("only the driver's script sourced", "cann-env.not-sourced")
def _(machine: Machine) -> None:
    unsource(machine, DRIVERS)


@fault("a line lost: ASCEND_OPP_PATH", "cann-env.unset", LATER)
def _(machine: Machine) -> None:
    machine.unset("ASCEND_OPP_PATH")


@fault("a line lost: ASCEND_HOME_PATH", "cann-env.unset", LATER)
def _(machine: Machine) -> None:
    machine.unset("ASCEND_HOME_PATH")


@fault("a line lost: TOOLCHAIN_HOME", "cann-env.unset", LATER)
def _(machine: Machine) -> None:
    machine.unset("TOOLCHAIN_HOME")


@fault(
    "a line lost: ASCEND_TOOLKIT_HOME",
    "cann-env.unset",
    cann("8.1.RC1", "8.3.RC1", "8.5.0", "9.0.0", "9.1.0"),
)
def _(machine: Machine) -> None:
    machine.unset("ASCEND_TOOLKIT_HOME")


@fault("ASCEND_HOME_PATH of a removed release", "cann-env.no-such-path", LATER)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_HOME_PATH"] = GONE


@fault("ASCEND_OPP_PATH of a removed release", "cann-env.no-such-path", LATER)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_OPP_PATH"] = f"{GONE}/opp"


@fault("ASCEND_TOOLKIT_HOME of a removed release", "cann-env.no-such-path", LATER)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_TOOLKIT_HOME"] = GONE


@fault("all variables of a removed release", "cann-env.no-such-path")
def _(machine: Machine) -> None:
    machine.variables.update(
        {name: value.replace(machine.top, GONE) for name, value in machine.variables.items()}
    )


@fault("ASCEND_HOME_PATH is relative", "cann-env.no-such-path", LATER)
def _(machine: Machine) -> None:
    machine.variables["ASCEND_HOME_PATH"] = "ascend-toolkit/latest"


@fault("ASCEND_OPP_PATH of another release", "cann-env.mixed-installs", LATER)
def _(machine: Machine) -> None:
    second(machine)
    machine.variables["ASCEND_OPP_PATH"] = f"{OTHER}/opp"


@fault("ASCEND_HOME_PATH of another release", "cann-env.mixed-installs", LATER)
def _(machine: Machine) -> None:
    second(machine)
    machine.variables["ASCEND_HOME_PATH"] = OTHER


@fault("TOOLCHAIN_HOME of another release", "cann-env.mixed-installs", LATER)
def _(machine: Machine) -> None:
    second(machine)
    machine.variables["TOOLCHAIN_HOME"] = f"{OTHER}/toolkit"


@fault("PYTHONPATH of another release", "cann-env.other-install-first", LATER)
def _(machine: Machine) -> None:
    second(machine)
    in_front(machine, "PYTHONPATH", f"{OTHER}/python/site-packages", f"{OTHER}/{build.TBE}")


@fault("PATH of another release", "cann-env.other-install-first", LATER)
def _(machine: Machine) -> None:
    second(machine)
    in_front(machine, "PATH", f"{OTHER}/bin", f"{OTHER}/compiler/ccec_compiler/bin")


@fault("PYTHONPATH overwritten", "cann-env.missing-entry")
def _(machine: Machine) -> None:
    machine.variables["PYTHONPATH"] = "/home/trainer/job"


@fault("PYTHONPATH unset", "cann-env.missing-entry")
def _(machine: Machine) -> None:
    machine.unset("PYTHONPATH")


@fault("PYTHONPATH lacks the operators", "cann-env.missing-entry")
def _(machine: Machine) -> None:
    kept = [entry for entry in machine.entries("PYTHONPATH") if not entry.endswith("/tbe")]
    machine.variables["PYTHONPATH"] = ":".join(kept)


@fault("PATH lacks the operator compiler", "cann-env.missing-entry")
def _(machine: Machine) -> None:
    kept = [entry for entry in machine.entries("PATH") if not entry.endswith("/ccec_compiler/bin")]
    machine.variables["PATH"] = ":".join(kept)


@fault("a line lost: ASCEND_AICPU_PATH", "aicpu-path.unset", both(LATER))
def _(machine: Machine) -> None:
    machine.unset("ASCEND_AICPU_PATH")


@fault("a line lost: ASCEND_AICPU_PATH (5.0)", "aicpu-path.unset", both(OLD, kind("torch")))
def _(machine: Machine) -> None:
    machine.unset("ASCEND_AICPU_PATH")


@fault("ASCEND_AICPU_PATH of a removed release", "aicpu-path.missing")
def _(machine: Machine) -> None:
    machine.variables["ASCEND_AICPU_PATH"] = GONE


@fault("ASCEND_AICPU_PATH ends in /opp", "aicpu-path.missing")
def _(machine: Machine) -> None:
    machine.variables["ASCEND_AICPU_PATH"] = f"{machine.top}/opp"


@fault("ASCEND_AICPU_PATH of another release", "aicpu-path.other-install")
def _(machine: Machine) -> None:
    second(machine)
    machine.variables["ASCEND_AICPU_PATH"] = OTHER
