"""Machines on which cann-driver says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.cann.cann_driver import cann_driver
from npudoctor.testing import Asked

from ..checks.python.stack_machine import site  # noqa: TID252
from .driver_machine import CONTAINER, DRIVER, HAL, NPU, asked, cann, driver


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    info = f"{DRIVER}/version.info"
    yield asked(cann_driver)
    yield asked(cann_driver, cann())
    yield asked(cann_driver, cann(), root="/srv/image")
    yield asked(cann_driver, cann("8.1.RC1", required=""), {info: "no version\n"})
    for around in (NPU, {**NPU, **CONTAINER}):
        yield asked(cann_driver, cann(), around)
        yield asked(cann_driver, cann(), driver(), around, without=info)
        yield asked(cann_driver, cann(), driver(), around, without=HAL)
    for release, version in (
        ("9.1.0", "25.0.rc1.1"),
        ("8.1.RC1", "23.0.7"),
        ("8.1.RC1", "30.0.0"),
        ("10.0.0", "25.5.1"),
    ):
        yield asked(cann_driver, cann(release), driver(version))
    yield asked(cann_driver, cann(), driver(hal="3.9.9"))
    broken = site(tmp, "[[cann_driver.driver]]\n")
    yield asked(cann_driver, cann(), driver(), knowledge=broken)
    yield asked(cann_driver, cann("6.0.1", branch="C99"), driver("22.0.4"))
