"""Faults of the driver, the firmware, the devices, and of the container that should show them."""

from __future__ import annotations

from tests.scenarios.cann import ASCEND, DRIVER
from tests.scenarios.fault import both, cann, fault, layout
from tests.scenarios.machines import Machine

from npudoctor.testing import Content

INFO = f"{DRIVER}/version.info"
FIRMWARE = f"{ASCEND}/firmware/version.info"


def text(machine: Machine, path: str, old: str, new: str) -> None:
    """Change a text file."""
    content: Content = machine.files[path]
    assert isinstance(content, str)
    assert old in content, (path, old)
    machine.files[path] = content.replace(old, new)


def no_driver(machine: Machine) -> None:
    """Neither driver nor record of it."""
    machine.remove(DRIVER, f"{ASCEND}/firmware", "/etc/ascend_install.info")


def no_devices(machine: Machine) -> None:
    """No device nodes."""
    machine.remove(*(path for path in machine.files if path.startswith("/dev/davinci")))


def driver(machine: Machine, version: str) -> None:
    """Another driver, that the firmware accepts."""
    text(machine, INFO, f"Version={machine.era.driver}", f"Version={version}")
    line = ".".join(version.split(".")[:2])
    text(machine, FIRMWARE, "compatible_version_drv=", f"compatible_version_drv=[{line},{line}.],")


@fault("the driver is not installed", "cann-driver.missing")
def _(machine: Machine) -> None:
    no_driver(machine)


@fault("the driver is not mounted into the container", "cann-driver.missing")
def _(machine: Machine) -> None:
    no_driver(machine)
    machine.files["/.dockerenv"] = ""


@fault("the driver's libraries are gone", "cann-driver.no-library")
def _(machine: Machine) -> None:
    machine.remove(f"{DRIVER}/lib64")


@fault("the driver's lib64 is not mounted into the container", "cann-driver.no-library")
def _(machine: Machine) -> None:
    machine.remove(f"{DRIVER}/lib64")
    machine.files["/.dockerenv"] = ""


@fault("version.info is not mounted into the container", "cann-driver.not-mounted")
def _(machine: Machine) -> None:
    machine.remove(INFO)
    machine.files["/.dockerenv"] = ""


@fault("a library of the driver is gone", "library-path.driver-not-found")
def _(machine: Machine) -> None:
    machine.remove(f"{DRIVER}/lib64/common/libc_sec.so")


@fault("the driver's folders not on the path", "library-path.driver-not-found")
def _(machine: Machine) -> None:
    kept = [entry for entry in machine.entries("LD_LIBRARY_PATH") if not entry.startswith(DRIVER)]
    machine.variables["LD_LIBRARY_PATH"] = ":".join(kept)


@fault("a driver that the release notes exclude", "cann-driver.incompatible", cann("9.1.0"))
def _(machine: Machine) -> None:
    driver(machine, "25.0.1")


@fault("a driver that is too old", "cann-driver.not-listed", cann("8.1.RC1", "8.3.RC1", "8.5.0", "9.0.0"))
def _(machine: Machine) -> None:
    driver(machine, "23.0.3")


@fault(
    "a driver that is newer than all known",
    "cann-driver.newer-than-table",
    cann("8.1.RC1", "8.3.RC1", "9.1.0"),
)
def _(machine: Machine) -> None:
    driver(machine, "29.0.0")


@fault("an old driver interface", "cann-driver.interface-too-old", layout("latest"))
def _(machine: Machine) -> None:
    text(machine, INFO, f"ascendhal_version={machine.era.hal}", "ascendhal_version=3.9.9")


@fault("firmware older than the driver wants", "driver-firmware.firmware-outside")
def _(machine: Machine) -> None:
    text(machine, FIRMWARE, f"Version={machine.era.firmware}", "Version=0.9.0.1.100")


@fault("firmware newer than the driver wants", "driver-firmware.firmware-outside")
def _(machine: Machine) -> None:
    text(machine, FIRMWARE, f"Version={machine.era.firmware}", "Version=99.0.0.1.100")


@fault("the firmware does not name the driver's line", "driver-firmware.driver-outside")
def _(machine: Machine) -> None:
    machine.files[FIRMWARE] = (
        f"Version={machine.era.firmware}\nfirmware_version=1.0\ncompatible_version_drv=[1.0,1.0.]\n"
    )


@fault("the driver's installation broke off", "driver-firmware.incomplete")
def _(machine: Machine) -> None:
    record = machine.files["/etc/ascend_install.info"]
    assert isinstance(record, str)
    kept = "".join(line for line in record.splitlines(True) if "Install_Status" not in line)
    machine.files["/etc/ascend_install.info"] = f"{kept}Driver_Install_Status=incomplete\n"


@fault("the driver is not loaded: no device nodes", "accelerator.missing")
def _(machine: Machine) -> None:
    no_devices(machine)


@fault("the container was given no device", "accelerator.missing")
def _(machine: Machine) -> None:
    no_devices(machine)
    machine.files["/.dockerenv"] = ""


@fault("the container was given neither devices nor driver", "accelerator.missing")
def _(machine: Machine) -> None:
    no_devices(machine)
    no_driver(machine)
    machine.files["/.dockerenv"] = ""


@fault("the NPUs are handed to virtual machines", "accelerator.missing", both())
def _(machine: Machine) -> None:
    no_devices(machine)
    machine.files["/sys/bus/pci/drivers/vfio-pci/bind"] = ""
    for path in [path for path in machine.files if path.endswith(":00.0/driver")]:
        from npudoctor.testing import link

        machine.files[path] = link("/sys/bus/pci/drivers/vfio-pci")


@fault("a driver of another branch", "cann-driver.other-branch", cann("6.0.1"))
def _(machine: Machine) -> None:
    text(machine, INFO, f"V100R001{machine.era.branch}", "V100R001C98")
    text(machine, INFO, "[V100R001C15],", "")
    record = f"{ASCEND}/ascend-toolkit/{machine.era.cann}/{machine.arch}-linux/ascend_toolkit_install.info"
    text(machine, record, "[V100R001C15],", "")
