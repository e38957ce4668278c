"""cuda-driver: the NVIDIA driver suits the CUDA of the frameworks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.elves import library
from tests.scenes.cuda_driver import (
    COMPAT,
    INSIDE,
    LIB,
    OPEN,
    compat,
    driver,
    gpu,
    judge,
    mindspore,
    paddle,
    torch,
)

from npudoctor import Action, Severity, Status
from npudoctor.facts.gpu.cuda import is_driver
from npudoctor.knowledge import tables
from npudoctor.testing import Content, device, link

ERROR, WARNING = Severity.ERROR, Severity.WARNING


def test_the_table_is_whole() -> None:
    assert all(
        is_driver(row["driver"]) or row["driver"] == "580" for row in tables.table("cuda_driver")["least"]
    )


@pytest.mark.parametrize(
    "files",
    [
        {**driver(), **torch()},
        {**driver("525.60.13"), **torch("'12.9'"), **paddle()},
        {**driver("580.65.06", form=OPEN), **torch("'13.0'"), **mindspore()},
        {**driver("450.80.02"), **mindspore()},
        {**driver("450.36.06"), **torch("'11.0'")},
        {**driver("418.87.00"), **mindspore("libcudart.so.10.1")},
        {**driver("470.57.02"), **torch("'14.1'")},  # newer than the table
    ],
)
def test_quiet_when_well(files: Mapping[str, Content]) -> None:
    asked = judge(files)
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    "files", [driver("390.157"), {**driver("470.57.02"), **torch("None"), **paddle("False")}]
)
def test_skipped_where_no_framework_uses_cuda(files: Mapping[str, Content]) -> None:
    asked = judge(files)
    assert (asked.status, asked.codes) == (Status.SKIPPED, [])
    assert is_driver(str(asked.facts["module"]))


@pytest.mark.parametrize(
    ("module", "files", "needs"),
    [
        ("470.57.02", torch(), "CUDA 12.8, which needs driver 525.60.13"),
        ("575.51.03", torch("'13.0'"), "CUDA 13.0, which needs driver 580"),
        ("440.33.01", paddle(), "CUDA 11.8, which needs driver 450.80.02"),
        ("418.39", mindspore(), "CUDA 11, which needs driver 450.80.02"),
        ("396.26", mindspore("libcudart.so.10.1"), "CUDA 10.1, which needs driver 418.39"),
    ],
)
def test_too_old(module: str, files: dict[str, Content], needs: str) -> None:
    (finding,) = judge({**driver(module), **files}).findings
    assert (finding.code, finding.severity) == ("cuda-driver.too-old", ERROR)
    assert needs in finding.message
    assert finding.message.endswith(f"this machine has {module}")


def test_one_of_two_frameworks_is_served() -> None:
    (finding,) = judge({**driver("470.57.02"), **torch(), **paddle()}).findings
    assert (finding.code, finding.severity) == ("cuda-driver.too-old", WARNING)


@pytest.mark.parametrize("card", [{}, gpu("NVIDIA H100 80GB HBM3"), {"/proc/driver/nvidia/gpus/x/y": ""}])
def test_forward_compatibility(card: Mapping[str, Content]) -> None:
    files = {**compat("470.57.02"), **card}
    assert judge(files, {"LD_LIBRARY_PATH": COMPAT}).codes == []
    assert judge(files).codes == ["cuda-driver.too-old"]


def test_forward_compatibility_for_a_driver_that_is_newer() -> None:
    files = compat("580.65.06")
    assert judge(files).codes == []
    (finding,) = judge(files, {"LD_LIBRARY_PATH": COMPAT}).findings
    assert (finding.code, finding.severity) == ("cuda-driver.compat-unusable", ERROR)
    assert "older than the loaded NVIDIA module 580.65.06" in finding.message
    assert judge(compat("570.86.10"), {"LD_LIBRARY_PATH": COMPAT}).codes == []


def test_forward_compatibility_is_not_for_geforce() -> None:
    files = {**compat("535.129.03"), **gpu("NVIDIA GeForce RTX 4090")}
    (finding,) = judge(files, {"LD_LIBRARY_PATH": COMPAT}).findings
    assert (finding.code, finding.severity) == ("cuda-driver.compat-unusable", ERROR)
    assert "NVIDIA GeForce RTX 4090" in finding.message
    assert judge(files).codes == []


@pytest.mark.parametrize(
    ("libraries", "severity"), [("535.146.02", ERROR), ("550.54.15", ERROR), ("535.104.05", WARNING)]
)
def test_the_module_is_of_another_version(libraries: str, severity: Severity) -> None:
    (finding,) = judge(driver("535.129.03", libraries)).findings
    assert (finding.code, finding.severity) == ("cuda-driver.mismatch", severity)
    assert (finding.action, "reboot" in finding.message) == (Action.REBOOT, True)
    (finding,) = judge({**driver("535.129.03", libraries), **INSIDE}).findings
    assert (finding.action, "this image" in finding.message) == (Action.CONFIG, True)


def test_the_module_itself_is_believed_first() -> None:
    files = {**driver("535.129.03", "535.146.02"), "/sys/module/nvidia/version": "535.146.02\n"}
    assert judge(files).codes == []


def test_no_library() -> None:
    files = {path: content for path, content in driver().items() if "libcuda" not in path}
    assert judge(files).codes == []  # nothing that would load it
    (finding,) = judge({**files, **torch()}).findings
    assert (finding.code, finding.severity) == ("cuda-driver.no-library", ERROR)
    (finding,) = judge({**files, **torch(), **INSIDE}).findings
    assert "NVIDIA_DRIVER_CAPABILITIES" in finding.message


def test_a_stub_is_found_first() -> None:
    stubs = "/usr/local/cuda/lib64/stubs"
    files = {**driver(), **torch(), f"{stubs}/libcuda.so.1": library()}
    assert judge(files, {"LD_LIBRARY_PATH": stubs}).codes == ["cuda-driver.stub-first"]
    assert judge(files).codes == []


def test_files_without_a_version() -> None:
    """As on a Jetson, or where somebody copied them."""
    files = driver()
    files[f"{LIB}/libcuda.so.1"] = link("libcuda.so.1.1")
    files[f"{LIB}/libcuda.so.1.1"] = library()
    files[f"{LIB}/libnvidia-ml.so.1"] = library()
    assert judge({**files, **torch()}).codes == []


def test_cannot_tell_and_skipped() -> None:
    asked = judge({"/dev/nvidia0": device()})
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    files = {path: content for path, content in driver().items() if not path.startswith("/dev")}
    assert judge({**files, **torch()}).status is Status.SKIPPED
    assert judge({**driver(), **torch()}, root="/image").status is Status.SKIPPED
