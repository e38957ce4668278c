"""Do the Ascend driver and the firmware suit each other?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import INFO, WARNING, Action, Compared, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.core.driver_version import accepts, bracket_groups, sort_key
from npudoctor.host import CannotTell
from npudoctor.host.devices.driver import RECORD, Package, find_package, read_install_record


@check(
    "driver-firmware",
    scope=Scope.NODE,
    tags={"ascend"},
    needs=("driver",),
    codes={
        "driver-firmware.firmware-outside": WARNING,
        "driver-firmware.driver-outside": INFO,
        "driver-firmware.incomplete": WARNING,
    },
    compares=(Compared("firmware", "firmware"),),
)
def driver_firmware(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The Ascend driver and the firmware are compatible.

    ## What it does

    Reads the `version.info` of driver and firmware (where `/etc/ascend_install.info` says, else in
    /usr/local/Ascend) and the status that the driver's installer wrote down. Nothing is run.

    - `driver-firmware.firmware-outside`: the firmware's version is not in the driver's own range,
      `compatible_version_fw`.
    - `driver-firmware.driver-outside`: the driver is not in any of the series that the firmware lists,
      `compatible_version_drv`. The meaning of that list is inferred from real files, so this is information.
    - `driver-firmware.incomplete`: `Driver_Install_Status` is present and is not `complete`.

    Where only root may read a file, or a container cannot see it, the result is unknown and does not decide
    the verdict. For root, the tool gives its own answer: `npu-smi info -t board -i 0`, line `Compatibility`.

    ## Why it matters

    With a firmware that does not match the driver a device may not start (`RuntimeError: Initialize`), or
    fails later and less clearly.

    ## References

    - version.info of the driver packages 23.0.7 to 25.0.rc1.1 and of their firmware.
    - npu-smi, public source: the warning about a driver that is not completely installed.
    """
    driver = _read_package(host, "driver")
    if driver is None:
        raise Skip(_("no Ascend driver is installed on this machine"))
    status = read_install_record(host.files).get("driver_install_status", "")
    # Drivers before 24.1 write no Driver_Install_Status. npu-smi warns on a host if it is not complete.
    if status and status.lower() != "complete":
        yield Finding(
            "driver-firmware.incomplete",
            _("the driver's installation is incomplete: Driver_Install_Status is {status}", status=status),
            evidence=(f"{RECORD}: Driver_Install_Status={status}",),
            action=Action.CONFIG,
        )
    firmware = _read_package(host, "firmware")
    yield Facts({"driver": driver.version, "firmware": firmware.version if firmware else None})
    if firmware is None:
        raise Unknown(_("could not determine the firmware's version"), advisory=True)
    yield from _judge_pair(driver, firmware)


def _read_package(host: Host, kind: str) -> Optional[Package]:
    try:
        return find_package(host.files, kind)
    except CannotTell as error:
        # Only root can read the file on some systems, and a container need not contain it.
        raise Unknown(error.reason, advisory=True) from error


def _judge_pair(driver: Package, firmware: Package) -> Iterator[Finding]:
    # One range, such as [7.0.0,7.1.99] of driver 23.0.7.
    accepted = driver.settings.get("compatible_version_fw", "")
    # Pairs of a first release and a series, such as [23.0.0,23.0.0.],[24.1,24.1.] of firmware 7.5.0.1.129.
    lines = firmware.settings.get("compatible_version_drv", "")
    # Whether a version is in one of the ranges; None when that is unknown.
    matches = (
        [accepts(firmware.version, f"[{low},{high}]") for low, high in _pairs(accepted)]
        if firmware.version
        else []
    )
    is_accepted = None if not matches or None in matches else any(matches)
    # Whether a version is at least the first of a pair and begins with the second; None without pairs.
    is_listed: Optional[bool]
    pairs = _pairs(lines)
    if not driver.version or not pairs:
        is_listed = None
    else:
        release = driver.version.lower()
        is_listed = any(
            # A series ends with a dot; the appended one lets 25.0 itself match the series 25.0.
            sort_key(release) >= sort_key(low) and f"{release}.".startswith(line.lower())
            for low, line in pairs
        )
    if is_accepted is False:
        text = _("the firmware {firmware} is not in the range {range} that the driver {driver} accepts")
        code, span = "driver-firmware.firmware-outside", accepted
    elif is_listed is False:
        text = _("the driver {driver} is not in any of the series {range} that the firmware {firmware} lists")
        code, span = "driver-firmware.driver-outside", lines
    elif is_accepted is None and is_listed is None:
        raise Unknown(_("neither the driver nor the firmware says what it is compatible with"), advisory=True)
    else:
        return
    yield Finding(
        code,
        text.format(firmware=firmware.version, driver=driver.version, range=span),
        evidence=(
            f"{driver.info_path}: Version={driver.version} compatible_version_fw={accepted or '-'}",
            f"{firmware.info_path}: Version={firmware.version} compatible_version_drv={lines or '-'}",
        ),
        action=Action.CONFIG,
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(group[0], group[1]) for group in bracket_groups(text) if len(group) == 2]
