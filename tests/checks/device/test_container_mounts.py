"""container-mounts: this container was given what it needs of the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.checks.cann.driver_machine import HAL, driver
from tests.checks.device.test_device_nodes import CONTAINER, nodes

from npudoctor import Severity, Status
from npudoctor.checks.device.container_mounts import container_mounts
from npudoctor.testing import Asked, Content, ask, fake_host, unreadable
from npudoctor.testing import folder as folder_node

GIVEN: dict[str, Content] = {
    **nodes(),
    **driver(),
    "/usr/local/dcmi": folder_node(),
    "/usr/local/bin/npu-smi": "",
}


def told(*parts: Mapping[str, Content], without: tuple[str, ...] = (), **more: Any) -> Asked:
    files = {path: content for part in parts for path, content in part.items() if path not in without}
    return ask(container_mounts, fake_host(files, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(GIVEN)
    yield told(CONTAINER)
    yield told(GIVEN, CONTAINER, without=(HAL,))
    yield told(GIVEN, CONTAINER, without=("/usr/local/dcmi",))


OTHERS = (
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/etc/ascend_install.info",
)


def test_quiet_when_all_is_there() -> None:
    answer = told(GIVEN, CONTAINER)
    assert (answer.status, answer.findings) == (Status.OK, ())
    sbin: dict[str, Content] = {"/usr/local/sbin/npu-smi": ""}
    assert told(GIVEN, CONTAINER, sbin, without=("/usr/local/bin/npu-smi",)).codes == []
    assert told(GIVEN, CONTAINER, without=OTHERS[2:3], commands={"npu-smi": ""}).codes == []


def test_quiet_when_it_lies_elsewhere() -> None:
    record = {"/etc/ascend_install.info": "Driver_Install_Path_Param=/opt/hdk\n"}
    moved: dict[str, Content] = {"/opt/hdk/driver/lib64/driver/libascend_hal.so": ""}
    assert told(GIVEN, CONTAINER, record, moved, without=(HAL,)).codes == []
    listed = {"LD_LIBRARY_PATH": "/opt/hal:"}
    hal: dict[str, Content] = {"/opt/hal/libascend_hal.so": ""}
    assert told(GIVEN, CONTAINER, hal, without=(HAL,), variables=listed).codes == []
    assert told(GIVEN, CONTAINER, {"/usr/local/dcmi": unreadable()}).codes == []


def test_no_library_of_the_driver() -> None:
    (finding,) = told(GIVEN, CONTAINER, without=(HAL, "/usr/local/dcmi")).findings
    assert (finding.code, finding.severity) == ("container-mounts.driver", Severity.ERROR)
    options = (
        "-v /usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64:ro",
        "-v /usr/local/dcmi:/usr/local/dcmi:ro",
    )
    assert finding.fix is not None and finding.fix.title.endswith(" add " + " ".join(options))
    assert "cann-driver.missing" in finding.echo_of
    stub = {"LD_LIBRARY_PATH": "/opt/cann/devlib"}
    hal: dict[str, Content] = {"/opt/cann/devlib/libascend_hal.so": ""}
    codes = told(GIVEN, CONTAINER, hal, without=(HAL,), variables=stub).codes
    assert codes == ["container-mounts.driver"]


@pytest.mark.parametrize("path", OTHERS)
def test_what_a_job_does_not_need(path: str) -> None:
    answer = told(GIVEN, CONTAINER, without=(path,))
    (finding,) = answer.findings
    assert (finding.code, answer.status) == ("container-mounts.incomplete", Status.OK)
    assert finding.fix is not None and finding.fix.title.endswith(f" add -v {path}:{path}:ro")


def test_skipped() -> None:
    assert told(GIVEN).status is Status.SKIPPED
    assert told(nodes()).status is Status.SKIPPED
    assert told(CONTAINER).status is Status.SKIPPED
    assert told(GIVEN, CONTAINER, expect="none").status is Status.SKIPPED
    assert told(GIVEN, root="/srv/image").status is Status.SKIPPED


def test_cannot_tell() -> None:
    folder = "/usr/local/Ascend/driver/lib64"
    assert told(GIVEN, CONTAINER, {folder: unreadable()}, without=(HAL,)).status is Status.UNKNOWN
