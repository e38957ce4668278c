"""Machines on which driver-firmware says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.cann.driver_firmware import driver_firmware
from npudoctor.testing import Asked

from .driver_machine import asked, driver, firmware, record


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield asked(driver_firmware)
    yield asked(driver_firmware, driver())
    yield asked(driver_firmware, driver(fw=""), firmware(drv=""))
    yield asked(driver_firmware, driver(), firmware("7.8.0.7.220"))
    yield asked(driver_firmware, driver(), firmware(drv="[24.1,24.1.]"))
    yield asked(driver_firmware, driver(), firmware(), {"/etc/ascend_install.info": record("running")})
