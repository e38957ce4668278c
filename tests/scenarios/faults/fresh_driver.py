"""What goes wrong with libraries, driver, firmware, chips and NNAL, written from manuals and facts alone."""

from __future__ import annotations

from tests.elves import library
from tests.scenarios import cann as trees
from tests.scenarios.eras import ERAS
from tests.scenarios.fault import cann, fault, kind, layout
from tests.scenarios.faults.fresh import HAL, MODERN, NNAL, RECENT, beside, edit, real, swap
from tests.scenarios.machines import HOME, Machine

from npudoctor.testing import folder


@fault(
    "chip exchanged for one of the first generation",
    "soc-match.other-chip",
    cann("8.0.0", "8.1.RC1", "8.5.0", "9.0.0"),
)
def _(machine: Machine) -> None:
    for path in [
        path for path in machine.files if path.startswith("/sys/bus/pci/") and path.endswith("/device")
    ]:
        machine.files[path] = "0xd801\n"


@fault("ops package of the 310P installed", "soc-match.other-chip", layout("new"))
def _(machine: Machine) -> None:
    machine.remove(f"{machine.top}/{trees.TBE}/kernel")
    machine.files[f"{machine.top}/{trees.TBE}/kernel/ascend310p"] = folder()
    edit(machine, f"{machine.top}/{machine.arch}-linux/ascend_ops_install.info", "910b", "310p")


@fault("the vendor's stub libraries first", "library-path.stub-first", MODERN)
def _(machine: Machine) -> None:
    stubs = f"{real(machine)}/{'devlib' if machine.era.layout == 'new' else 'runtime/lib64/stub'}"
    for name in ("libascend_hal.so", "libascendcl.so"):
        machine.files[f"{stubs}/{name}"] = library("libc.so.6", soname=name, machine=machine.arch)
    machine.variables["LD_LIBRARY_PATH"] = f"{stubs}:{machine.variables['LD_LIBRARY_PATH']}"


@fault("library of CANN 7 first on the loader's path", "library-path.other-cann", RECENT)
def _(machine: Machine) -> None:
    old = f"{beside(machine)}/lib64"
    machine.variables["LD_LIBRARY_PATH"] = f"{old}:{machine.variables['LD_LIBRARY_PATH']}"


@fault("disk full in the upgrade: libhccl.so is empty", "library-path.broken")
def _(machine: Machine) -> None:
    machine.files[f"{trees.library_folder(machine.era, machine.arch)}/libhccl.so"] = b""


@fault("a library copied beside the script, an empty entry first", "library-path.working-directory", MODERN)
def _(machine: Machine) -> None:
    copied = library("libc.so.6", soname="libascendcl.so", machine=machine.arch)
    machine.files[f"{HOME}/job/libascendcl.so"] = copied
    machine.variables["LD_LIBRARY_PATH"] = f":{machine.variables['LD_LIBRARY_PATH']}"


@fault("lib64 of CANN dropped from LD_LIBRARY_PATH", "library-path.not-found", MODERN)
def _(machine: Machine) -> None:
    kept = [entry for entry in machine.entries("LD_LIBRARY_PATH") if entry != f"{machine.top}/lib64"]
    machine.variables["LD_LIBRARY_PATH"] = ":".join(kept)


@fault("container without the driver's folders on the path", "library-path.driver-not-found")
def _(machine: Machine) -> None:
    kept = [entry for entry in machine.entries("LD_LIBRARY_PATH") if "driver" not in entry]
    machine.variables["LD_LIBRARY_PATH"] = ":".join(kept)


@fault("only lib64/driver mounted, lib64/common not", "library-path.driver-not-found")
def _(machine: Machine) -> None:
    machine.files["/.dockerenv"] = ""
    machine.remove(f"{trees.DRIVER}/lib64/common")


@fault("driver for the other processor", "library-path.driver-not-found")
def _(machine: Machine) -> None:
    other = "x86_64" if machine.arch == "aarch64" else "aarch64"
    machine.files[HAL] = library("libc.so.6", soname="libascend_hal.so", machine=other)


@fault("CANN 9.1 on a driver of 25.0", "cann-driver.incompatible", cann("9.1.0"))
def _(machine: Machine) -> None:
    machine.files.update(trees.driver(ERAS["8.1.RC1"], machine.arch))


@fault("CANN 8.3 and 8.5 on a driver of 23.0", "cann-driver.not-listed", cann("8.3.RC1", "8.5.0"))
def _(machine: Machine) -> None:
    machine.files.update(trees.driver(ERAS["7.0.0"], machine.arch))


@fault("driver with an older DVPP interface", "cann-driver.interface-too-old", layout("latest"))
def _(machine: Machine) -> None:
    edit(machine, f"{trees.DRIVER}/version.info", "dvppkernels_version=1.1", "dvppkernels_version=1.0")


@fault("driver uninstalled, not yet rebooted", "cann-driver.missing")
def _(machine: Machine) -> None:
    machine.remove(trees.DRIVER, "/etc/ascend_install.info")


@fault("upgrade of the driver broke off after removing its libraries", "cann-driver.no-library")
def _(machine: Machine) -> None:
    machine.remove(f"{trees.DRIVER}/lib64")


@fault(
    "driver rolled back, firmware not",
    "driver-firmware.firmware-outside",
    lambda machine: machine.era.cann != "9.1.0",
)
def _(machine: Machine) -> None:
    edit(machine, f"{trees.ASCEND}/firmware/version.info", machine.era.firmware, ERAS["9.1.0"].firmware)


@fault(
    "driver upgraded, firmware of the last generation",
    "driver-firmware.firmware-outside",
    cann("8.0.0", "8.1.RC1"),
)
def _(machine: Machine) -> None:
    edit(machine, f"{trees.DRIVER}/version.info", "fw=[1.0.0,", "fw=[7.0.0,")
    edit(machine, f"{trees.ASCEND}/firmware/version.info", machine.era.firmware, "1.84.15.1.310")


@fault("firmware that names only later drivers", "driver-firmware.driver-outside", cann("8.0.0", "8.1.RC1"))
def _(machine: Machine) -> None:
    path = f"{trees.ASCEND}/firmware/version.info"
    lines = str(machine.files[path]).splitlines()
    kept = [line for line in lines if not line.startswith("compatible_version_drv")]
    machine.files[path] = "\n".join([*kept, "compatible_version_drv=[25.2,25.2.],[25.3,25.3.]", ""])


@fault(
    "driver's installer ended half-way",
    "driver-firmware.incomplete",
    lambda machine: machine.era.driver > "24.1",
)
def _(machine: Machine) -> None:
    edit(machine, "/etc/ascend_install.info", "Install_Status=complete", "Install_Status=incomplete")


@fault("NNAL of the last release", "nnal-atb.other-version", kind("vllm"))
def _(machine: Machine) -> None:
    edit(machine, f"{NNAL}/8.5.0/version.info", "8.5.0", "8.3.RC1")


@fault("ATB too old for torch_npu", "nnal-atb.undefined-symbols", kind("vllm"))
def _(machine: Machine) -> None:
    for abi in (0, 1):
        machine.files[f"{NNAL}/8.5.0/atb/cxx_abi_{abi}/lib/libatb.so"] = library(
            "libc.so.6", soname="libatb.so", exports=["_ZN3atb9OldThingsEv"], machine=machine.arch
        )


@fault("ATB sourced before torch was installed", "nnal-atb.other-abi", kind("vllm"))
def _(machine: Machine) -> None:
    swap(machine, "cxx_abi_1", "cxx_abi_0", "ATB_HOME_PATH", "LD_LIBRARY_PATH")


@fault("ATB sourced twice, for both ABIs", "nnal-atb.both-abis", kind("vllm"))
def _(machine: Machine) -> None:
    machine.variables["LD_LIBRARY_PATH"] += f":{NNAL}/latest/atb/cxx_abi_0/lib"


@fault("NNAL removed, its variables left", "nnal-atb.not-found", kind("vllm"))
def _(machine: Machine) -> None:
    machine.remove(NNAL)


@fault("ATB's script not sourced", "cann-env.atb-not-sourced", kind("vllm"))
def _(machine: Machine) -> None:
    machine.unset("ATB_HOME_PATH")
    kept = [entry for entry in machine.entries("LD_LIBRARY_PATH") if NNAL not in entry]
    machine.variables["LD_LIBRARY_PATH"] = ":".join(kept)
