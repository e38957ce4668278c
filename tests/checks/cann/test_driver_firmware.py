"""driver-firmware: each in the range of the other, and completely installed."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checks.cann.driver_machine import DRIVER, FIRMWARE, asked, driver, firmware, record

from npudoctor import Severity, Status
from npudoctor.checks.cann.driver_firmware import driver_firmware
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, ask, unreadable

OLD = "[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.]"
LINES = "[23.0.0,23.0.0.],[24.0,24.0.],[24.1,24.1.]"


@pytest.mark.parametrize(
    ("version", "fw", "firm", "drv"),
    [
        ("24.1.rc3", "[7.0.0,7.5.99]", "7.5.0.1.129", LINES),
        ("25.0.rc1.1", "[7.0.0,7.7.99]", "7.7.0.1.231", f"{LINES},[25.0,25.0.]"),
        ("23.0.0.3", "[7.0.0,7.1.99]", "7.1.0.11.220", OLD),
        ("23.0.rc3", "[7.0.0,7.1.99]", "7.1.0.5.220", OLD),
        ("24.1.rc1", "[7.0.0,7.2.99]", "7.1.0.11.220", ""),
        ("24.1.0", "", "7.5.0.1.129", LINES),
        ("25.9.0", "[6.0.0,6.9.99],[7.0.0,7.7.99]", "7.7.0.1.231", "[25.9,25.9.]"),
    ],
)
def test_quiet_when_they_suit(version: str, fw: str, firm: str, drv: str) -> None:
    told = asked(driver_firmware, driver(version, fw=fw), firmware(firm, drv))
    assert (told.status, told.codes) == (Status.OK, [])
    assert told.facts == {"driver": version, "firmware": firm}


@pytest.mark.parametrize("firm", ["7.8.0.7.220", "6.9.9", "10.0.0"])
def test_a_firmware_that_the_driver_does_not_accept(firm: str) -> None:
    (finding,) = asked(driver_firmware, driver(), firmware(firm)).findings
    assert (finding.code, finding.severity) == ("driver-firmware.firmware-outside", Severity.WARNING)
    assert firm in finding.message
    assert "[7.0.0,7.7.99]" in finding.message


@pytest.mark.parametrize("version", ["25.1.0", "23.0.7", "24.10.0"])
def test_a_driver_that_the_firmware_does_not_name_is_only_noted(version: str) -> None:
    told = asked(driver_firmware, driver(version), firmware(drv=LINES))
    assert (told.status, told.codes) == (Status.OK, ["driver-firmware.driver-outside"])


@pytest.mark.parametrize(
    ("status", "codes"), [("complete", []), ("", []), ("running", ["driver-firmware.incomplete"])]
)
def test_the_status_that_the_installer_wrote_down(status: str, codes: list[str]) -> None:
    files = {"/etc/ascend_install.info": record(status)}
    assert asked(driver_firmware, driver(), firmware(), files).codes == codes


def test_skipped_without_driver() -> None:
    assert asked(driver_firmware, firmware()).status is Status.SKIPPED


def test_cannot_tell() -> None:
    hidden = {f"{FIRMWARE}/version.info": unreadable(errno.EACCES)}
    for told in (
        asked(driver_firmware, driver()),
        asked(driver_firmware, driver(), hidden, euid=1000),
        asked(driver_firmware, {f"{DRIVER}/version.info": unreadable(errno.EACCES)}),
        asked(driver_firmware, driver(fw=""), firmware(drv="")),
        asked(driver_firmware, driver(fw="any"), firmware(drv="[all]")),
    ):
        assert (told.status, told.advisory, told.codes) == (Status.UNKNOWN, True, [])


def test_what_is_incomplete_is_told_without_firmware() -> None:
    files = {"/etc/ascend_install.info": record("failed")}
    told = asked(driver_firmware, driver(), files)
    assert (told.status, told.codes) == (Status.UNKNOWN, ["driver-firmware.incomplete"])


def test_in_an_image(tmp_path: Path) -> None:
    for path, content in {**driver(), **firmware("7.8.0")}.items():
        place = tmp_path / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    told = ask(driver_firmware, Host(Options(root=str(tmp_path))))
    assert told.codes == ["driver-firmware.firmware-outside"]


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield asked(driver_firmware)
    yield asked(driver_firmware, driver())
    yield asked(driver_firmware, driver(fw=""), firmware(drv=""))
    yield asked(driver_firmware, driver(), firmware("7.8.0.7.220"))
    yield asked(driver_firmware, driver(), firmware(drv="[24.1,24.1.]"))
    yield asked(driver_firmware, driver(), firmware(), {"/etc/ascend_install.info": record("running")})
