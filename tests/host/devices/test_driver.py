"""Driver and firmware: where they are, the order of their versions, ranges as their files write them."""

from __future__ import annotations

import errno

import pytest

from npudoctor.core.driver_version import accepts, bracket_groups, is_in_line, sort_key
from npudoctor.host.devices.driver import find_libraries, find_package
from npudoctor.testing import Content, fake_host, unreadable

RECORD = "/etc/ascend_install.info"


def test_versions_are_in_natural_order() -> None:
    ordered = ["20.2.2.spc001", "22.0.4", "23.0.rc3", "23.0.0", "23.0.7", "24.1.rc1", "24.1.rc3", "24.1.0"]
    ordered += ["24.1.0.3", "25.0.rc1", "25.0.rc1.1", "25.0.0", "25.2.2", "25.10.0"]
    assert sorted(set(ordered), key=sort_key) == ordered


@pytest.mark.parametrize(
    ("version", "prefix", "yes"),
    [
        ("24.1.rc3", "24.1", True),
        ("24.1.RC3.1", "24.1.rc3", True),
        ("24.10.0", "24.1", False),
        ("24.1", "24.1.0", False),
    ],
)
def test_a_line(version: str, prefix: str, yes: bool) -> None:
    assert is_in_line(version, prefix) is yes


@pytest.mark.parametrize(
    ("version", "wanted", "answer"),
    [
        ("7.7.0.1.231", "[7.0.0,7.7.99]", True),
        ("7.8.0", "[7.0.0,7.7.99]", False),
        ("7.7.0.1", "[7.0,7.7]", True),
        ("7.7.0.1", "[7.0,7.7)", False),
        ("7.0.0", "(7.0.0,7.7]", False),
        ("7.35.23", "4.0.0", True),
        ("3.9", "4.0.0", False),
        ("7.7.0", '">=7.6, <=7.7"', True),
        ("7.8.0", ">=7.6, <7.8", False),
        ("7.8.0", "==7.8", True),
        ("7.8.0", "", None),
        ("7.8.0", "[a b]", None),
        ("", "4.0", None),
    ],
)
def test_ranges(version: str, wanted: str, answer: object) -> None:
    assert accepts(version, wanted) is answer


def test_groups() -> None:
    assert bracket_groups("[23.0.0,23.0.0.],[24.1]") == [("23.0.0", "23.0.0."), ("24.1",)]
    assert bracket_groups("") == []


def test_where_it_is() -> None:
    info: dict[str, Content] = {
        "/opt/driver/version.info": "Version=25.2.0\n",
        RECORD: "Driver_Install_Path_Param=/opt\n",
    }
    usual: dict[str, Content] = {
        "/usr/local/Ascend/driver/version.info": "version = 24.1.0\n",
        RECORD: unreadable(errno.EACCES),
    }
    for files, version in ((info, "25.2.0"), (usual, "24.1.0")):
        found = find_package(fake_host(files).files, "driver")
        assert found is not None
        assert found.version == version
    assert find_package(fake_host().files, "driver") is None
    library = "/usr/local/Ascend/driver/lib64/libascend_hal.so"
    assert list(find_libraries(fake_host({library: ""}).files)) == [library]
