"""cann-driver: the driver suits CANN, by interfaces, by what is published, and by what is there."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest
from tests.checks.cann.driver_machine import CONTAINER, DRIVER, HAL, NPU, asked, cann, driver
from tests.checks.python.stack_machine import site

from npudoctor import Severity, Status
from npudoctor.checks.cann.cann_driver import cann_driver
from npudoctor.host import Host, Options
from npudoctor.knowledge.site import Knowledge
from npudoctor.testing import Asked, Content, ask, unreadable

INFO_FILE = f"{DRIVER}/version.info"


def pair(release: str, version: str, **more: str) -> Asked:
    return asked(cann_driver, cann(release), driver(version, **more), NPU)


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("8.1.RC1", "25.0.rc1.1"),
        ("8.1.RC1", "24.1.rc3"),
        ("8.0.0", "24.1.rc3"),
        ("8.0.RC3", "24.1.0.3"),
        ("8.0.RC1", "23.0.3"),
        ("8.2.RC1", "25.2.0"),
        ("8.2.RC1", "25.2.2"),
        ("8.3.RC1", "25.3.rc1"),
        ("8.3.RC2", "25.3.rc1.2"),
        ("8.5.0", "25.5.1"),
        ("8.5.1", "25.0.rc1.1"),
        ("9.0.0-beta.2", "25.5.1"),
        ("9.1.0", "26.0.rc1"),
        ("7.0.RC1", "23.0.rc3"),
        ("7.0.RC1", "22.0.4"),
        ("6.0.1", "22.0.0"),
    ],
)
def test_quiet_when_the_pair_is_known_to_work(release: str, version: str) -> None:
    told = pair(release, version)
    assert (told.status, told.codes) == (Status.OK, [])
    assert told.facts["driver"] == version


def test_every_row_of_ours_is_quiet() -> None:
    rows = [row for row in Knowledge().rows("cann_driver", "driver") if row.values.get("compatible", True)]
    assert len(rows) > 25
    for row in rows:
        for release, version in product(row.texts("cann"), row.texts("drivers")):
            there = [re.sub(r"\.[xX]\Z", ".1", name) for name in (release, version)]
            assert pair(*there).codes == [], (release, version)


def test_between_two_rows_is_a_note_where_no_list_speaks_against_it() -> None:
    told = asked(cann_driver, cann("9.2.0"), driver("26.1.0", listed=""), NPU)
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("cann-driver.not-listed", Severity.INFO)
    assert "26.0.RC1, 26.2.RC1" in finding.message


def test_rows_of_a_site(tmp_path: Path) -> None:
    row = '[[cann_driver.driver]]\ncann = ["10.0.x"]\ndrivers = {}\nsource = "ours"\nas_of = "2026-12"\n'
    known = site(tmp_path / "a", row.format('["24.X"]'))
    assert asked(cann_driver, cann("10.0.0"), driver("24.1.0"), NPU, knowledge=known).codes == []
    for drivers in ("[]", "24"):
        broken = site(tmp_path / drivers, row.format(drivers))
        told = asked(cann_driver, cann(), driver(), NPU, knowledge=broken)
        assert (told.status, told.codes) == (Status.PROBLEM, ["cann-driver.site-table"])
        assert "drivers is not a string" in told.findings[0].message


def test_declared_not_to_work() -> None:
    told = pair("9.1.0", "25.0.rc1.1")
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("cann-driver.incompatible", Severity.ERROR)
    assert "CANN 9.1.0" in finding.message
    assert "25.2.X" in finding.message
    assert any("recommended: 26.0.RC1" in line for line in finding.evidence)


@pytest.mark.parametrize(
    ("release", "version", "near"),
    [
        ("8.1.RC1", "23.0.7", "24.1.RC1"),
        ("8.2.RC1", "24.1.rc1", "24.1.RC2"),
        ("9.1.0", "25.4.0", "25.3.X, 25.5.X"),
    ],
)
def test_older_than_what_is_named_or_between(release: str, version: str, near: str) -> None:
    (finding,) = pair(release, version, branch="C99", listed="[V100R001C99]").findings
    assert (finding.code, finding.severity) == ("cann-driver.not-listed", Severity.WARNING)
    assert near in finding.message


def test_between_two_that_work_the_packages_own_lists_count() -> None:
    (finding,) = pair("8.0.0", "25.0.rc1.1").findings
    assert (finding.code, finding.severity) == ("cann-driver.not-listed", Severity.INFO)
    (finding,) = pair("8.0.0", "25.0.rc1.1", branch="C99", listed="[V100R001C99]").findings
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(("release", "version"), [("8.1.RC1", "30.0.0"), ("10.0.0", "25.5.1")])
def test_newer_than_the_table_is_only_noted(release: str, version: str) -> None:
    told = pair(release, version)
    assert (told.status, told.codes) == (Status.OK, ["cann-driver.newer-than-table"])
    assert "2026-11" in told.findings[0].message


@pytest.mark.parametrize(
    ("required", "hal", "codes"),
    [
        ("4.0.0", "7.35.23", []),
        ("7.35.23", "7.35.23", []),
        ('"[4.0.0,7.35]"', "7.35.23", []),
        ('">=4.0, <8"', "7.35.23", []),
        ("what?", "7.35.23", []),
        ("7.36.0", "7.35.23", ["cann-driver.interface-too-old"]),
        ("[4.0.0,7.0)", "7.35.23", ["cann-driver.interface-too-old"]),
        ("(7.35.23,8]", "7.35.23", ["cann-driver.interface-too-old"]),
    ],
)
def test_the_interfaces_that_the_runtime_asks_for(required: str, hal: str, codes: list[str]) -> None:
    lines = f"required_driver_ascendhal_version={required}\n"
    told = asked(cann_driver, cann(required=lines), driver(hal=hal))
    assert told.codes == codes
    assert {finding.severity for finding in told.findings} <= {Severity.WARNING}


def test_branches_are_asked_only_where_no_row_is() -> None:
    assert pair("8.1.RC1", "25.0.rc1.1", branch="C99", listed="[V100R001C99]").codes == []
    alone = asked(cann_driver, cann("6.0.1", branch="C99"), driver("22.0.4"))
    assert (alone.status, alone.codes) == (Status.OK, ["cann-driver.other-branch"])
    # Either side is enough: C16 lies in CANN's own [C15,C18].
    assert asked(cann_driver, cann("6.0.1", branch="C99"), driver("22.0.4", branch="C16")).codes == []


def test_no_driver_where_a_job_is_to_use_npus() -> None:
    for told in (asked(cann_driver, cann(), NPU), asked(cann_driver, cann(), expect="npu")):
        (finding,) = told.findings
        assert (finding.code, finding.severity) == ("cann-driver.missing", Severity.ERROR)
        assert finding.echo_of == ("accelerator.missing",)
        assert finding.fix is not None
        assert (finding.evidence, finding.fix.commands) == ((), ())


def test_in_a_container_the_mounts_are_said() -> None:
    (finding,) = asked(cann_driver, cann(), NPU, CONTAINER).findings
    assert finding.code == "cann-driver.missing"
    assert finding.fix is not None and f" add -v {DRIVER}/lib64:{DRIVER}/lib64:ro" in finding.fix.title
    without_version = asked(cann_driver, cann(), driver(), NPU, CONTAINER, without=INFO_FILE)
    assert without_version.codes == ["cann-driver.not-mounted"]
    assert (without_version.status, without_version.advisory) == (Status.UNKNOWN, True)
    (finding,) = without_version.findings
    assert finding.fix is not None and f"-v {INFO_FILE}:{INFO_FILE}:ro" in finding.fix.title


def test_the_library_is_missing() -> None:
    told = asked(cann_driver, cann(), driver(), NPU, without=HAL)
    assert told.codes == ["cann-driver.no-library"]
    stub = {"LD_LIBRARY_PATH": "/opt/cann/devlib:relative"}
    files = {"/opt/cann/devlib/libascend_hal.so": b""}
    assert asked(cann_driver, cann(), driver(), NPU, files, without=HAL, variables=stub).codes != []
    real = {"LD_LIBRARY_PATH": "/opt/other/lib64"}
    files = {"/opt/other/lib64/libascend_hal.so": b""}
    assert asked(cann_driver, cann(), driver(), NPU, files, without=HAL, variables=real).codes == []


@pytest.mark.parametrize(
    "older", [f"{DRIVER}/lib64/libascend_hal.so", f"{DRIVER}/lib64/common/libascend_hal.so"]
)
def test_the_library_lay_elsewhere_in_older_drivers(older: str) -> None:
    assert asked(cann_driver, cann(), driver(), {older: b""}, NPU, without=HAL).codes == []


def test_where_the_installer_says_that_it_is() -> None:
    files = {
        path.replace("/usr/local/Ascend/driver", "/opt/hw/driver"): text for path, text in driver().items()
    }
    files["/etc/ascend_install.info"] = "Driver_Install_Path_Param=/opt/hw\n"
    told = asked(cann_driver, cann(), files, NPU)
    assert (told.codes, told.facts["driver"]) == ([], "25.0.rc1.1")


def test_skipped() -> None:
    assert asked(cann_driver, driver(), NPU).status is Status.SKIPPED
    assert asked(cann_driver, cann()).status is Status.SKIPPED  # to build on, without an NPU
    assert asked(cann_driver, cann(), expect="none").status is Status.SKIPPED


def test_cannot_tell() -> None:
    hidden = {INFO_FILE: unreadable(errno.EACCES)}
    assert not asked(cann_driver, cann(), hidden).advisory
    for told in (
        asked(cann_driver, cann(), hidden, euid=1000),
        asked(cann_driver, cann(), hidden, CONTAINER),
    ):
        assert (told.status, told.advisory) == (Status.UNKNOWN, True)
    silent = asked(cann_driver, cann(required=""), {INFO_FILE: "nothing\n"})
    assert (silent.status, silent.advisory) == (Status.UNKNOWN, True)


def image(root: Path, *parts: Mapping[str, Content]) -> Host:
    for part in parts:
        for path, content in part.items():
            place = root / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return Host(Options(root=str(root)))


def test_in_an_image(tmp_path: Path) -> None:
    assert ask(cann_driver, image(tmp_path / "a", cann())).status is Status.SKIPPED
    told = ask(cann_driver, image(tmp_path / "b", cann("9.1.0"), driver()))
    assert told.codes == ["cann-driver.incompatible"]


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
