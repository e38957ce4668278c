"""Machines with CANN and a driver, in the words of real files: info files of CANN, driver and firmware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.checking.check import Check
from npudoctor.testing import Asked, Content, ask, device, fake_host

DRIVER = "/usr/local/Ascend/driver"
FIRMWARE = "/usr/local/Ascend/firmware"
HAL = f"{DRIVER}/lib64/driver/libascend_hal.so"
LATEST = "/usr/local/Ascend/ascend-toolkit/latest"

RUNTIME = (
    'required_driver_ascendhal_version=4.0.0\nrequired_driver_dvppkernels_version=1.1\n'
    'required_driver_tsfw_version=1.0\nrequired_opp_abi_version=">=6.3, <=7.7"\n'
)  # fmt: skip
LISTED = "[V100R001C17],[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21]"


def cann(
    version: str = "8.1.RC1", component: str = "7.7.0.1.238", required: str = RUNTIME, branch: str = "C21"
) -> dict[str, Content]:
    """An installation of the 5.1 to 8.3 layout."""
    numbers = f"Version={component}\nversion_dir={version}\n"
    return {
        f"{LATEST}/compiler/version.info": numbers,
        f"{LATEST}/runtime/version.info": numbers + required,
        f"{LATEST}/opp/version.info": numbers,
        f"{LATEST}/aarch64-linux/ascend_toolkit_install.info": (
            f"package_name=Ascend-cann-toolkit\nversion={version}\ninnerversion=V100R001{branch}SPC001B238\n"
            f"compatible_version=[V100R001C15,V100R001C18],[V100R001{branch}]\narch=aarch64\nos=linux\n"
            f"path={LATEST}/aarch64-linux\n"
        ),
    }


def driver(
    version: str = "25.0.rc1.1",
    hal: str = "7.35.23",
    branch: str = "C21",
    listed: str = LISTED,
    fw: str = "[7.0.0,7.7.99]",
) -> dict[str, Content]:
    """An installed driver with its library and the installer's record."""
    return {
        f"{DRIVER}/version.info": (
            f"Version={version}\nascendhal_version={hal}\naicpu_version=1.0\ntdt_version=1.0\nlog_version=1.0\n"
            f"prof_version=2.0\ndvppkernels_version=1.1\ntsfw_version=1.0\n"
            f"Innerversion=V100R001{branch}SPC002B220\ncompatible_version={listed}\n"
            f"compatible_version_fw={fw}\npackage_version={version}\n"
        ),
        HAL: b"\x7fELF",
        "/etc/ascend_install.info": record("complete"),
    }


def record(status: str = "") -> str:
    """/etc/ascend_install.info; before 24.1 it has no status."""
    lines = (
        "UserName=HwHiAiUser\nUserGroup=HwHiAiUser\nFirmware_Install_Type=full\n"
        "Firmware_Install_Path_Param=/usr/local/Ascend\nDriver_Install_Type=full\n"
        "Driver_Install_Path_Param=/usr/local/Ascend\nDriver_Install_For_All=no\nDriver_Install_Mode=normal\n"
    )
    return lines + (f"Driver_Install_Status={status}\n" if status else "")


def firmware(
    version: str = "7.7.0.1.231", drv: str = "[23.0.0,23.0.0.],[24.0,24.0.],[24.1,24.1.],[25.0,25.0.]"
) -> dict[str, Content]:
    """An installed firmware package."""
    text = (
        f"Version={version}\nfirmware_version=1.0\npackage_version=25.0.rc1.1\ncompatible_version_drv={drv}\n"
    )
    return {f"{FIRMWARE}/version.info": text}


NPU: dict[str, Content] = {"/dev/davinci0": device()}
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}


def asked(check: Check, *parts: Mapping[str, Content], without: str = "", **more: Any) -> Asked:
    """The answer of a check on a machine of these parts; `without`: the path that is not there."""
    files = {path: content for part in parts for path, content in part.items() if path != without}
    return ask(check, fake_host(files, **more))
