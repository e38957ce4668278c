"""cuda-driver: the NVIDIA driver suits the CUDA of the frameworks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.elves import library

from npudoctor import Action, Severity, Status
from npudoctor.checks.gpu.cuda_driver import cuda_driver
from npudoctor.facts.gpu.cuda import is_driver_version
from npudoctor.knowledge import tables
from npudoctor.testing import Asked, Content, ask, device, fake_host, link

ENV = "/opt/env"
SITE = f"{ENV}/lib/python3.11/site-packages"
LIB = "/usr/lib64"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Thu Oct 26 09:00:00 UTC 2023\nGCC version: 12\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (root@host)\n"


def driver(
    module: str = "535.129.03", libraries: Optional[str] = None, form: str = CLOSED
) -> dict[str, Content]:
    """Its module and its libraries, which are of one version unless said otherwise."""
    version = libraries or module
    files: dict[str, Content] = {
        f"{ENV}/bin/python3": library(interpreter="/lib64/ld-linux-x86-64.so.2"),
        "/dev/nvidia0": device(),
        "/proc/driver/nvidia/version": form.format(module),
    }
    for name in ("libcuda", "libnvidia-ml"):
        files[f"{LIB}/{name}.so.1"] = link(f"{name}.so.{version}")
        files[f"{LIB}/{name}.so.{version}"] = library(soname=f"{name}.so.1")
    return files


def torch(cuda: str = "'12.8'") -> dict[str, Content]:
    """What torch says of itself."""
    text = f"from typing import Optional\n__version__ = '2.9.0'\ncuda: Optional[str] = {cuda}\nhip = None\n"
    return {f"{SITE}/torch/__init__.py": "", f"{SITE}/torch/version.py": text}


def paddle(cuda: str = "11.8") -> dict[str, Content]:
    """What Paddle says of itself."""
    text = f"full_version     = '2.6.2'\ncuda_version     = '{cuda}'\n"
    return {f"{SITE}/paddle/__init__.py": "", f"{SITE}/paddle/version/__init__.py": text}


def mindspore(runtime: str = "libcudart.so.11.0") -> dict[str, Content]:
    """MindSpore's plug-in for GPUs."""
    return {
        f"{SITE}/mindspore/_c_expression.cpython-311-x86_64-linux-gnu.so": library(),
        f"{SITE}/mindspore/lib/plugin/libmindspore_gpu.so": library("libcublas.so.11", runtime),
    }


COMPAT = "/usr/local/cuda-12.8/compat"


def compat(module: str, version: str = "570.86.10") -> dict[str, Content]:
    """A package for forward compatibility beside a driver."""
    return {
        **driver(module),
        **torch(),
        f"{COMPAT}/libcuda.so.1": link(f"libcuda.so.{version}"),
        f"{COMPAT}/libcuda.so.{version}": library(soname="libcuda.so.1"),
    }


def gpu(model: str) -> dict[str, Content]:
    """What the module says of a card."""
    return {"/proc/driver/nvidia/gpus/0000:01:00.0/information": f"Model: \t\t {model}\nIRQ:   \t\t 154\n"}


def judge(files: Mapping[str, Content], variables: Optional[Mapping[str, str]] = None, **more: Any) -> Asked:
    """What cuda-driver says of it."""
    host = fake_host(files, variables=variables, python=f"{ENV}/bin/python3", search_path=(SITE,), **more)
    return ask(cuda_driver, host)


INSIDE: dict[str, Content] = {"/.dockerenv": ""}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judge({})
    yield judge({"/dev/nvidia0": device()})
    for inside in ({}, INSIDE):
        yield judge({**driver("470.57.02"), **torch(), **inside})
        yield judge({**driver("535.129.03", "535.146.02"), **inside})
        without = {path: content for path, content in driver().items() if "libcuda" not in path}
        yield judge({**without, **torch(), **inside})
    yield judge({**driver(), "/cuda/stubs/libcuda.so.1": library()}, {"LD_LIBRARY_PATH": "/cuda/stubs"})
    on_path = {"LD_LIBRARY_PATH": COMPAT}
    for inside in ({}, INSIDE):
        yield judge({**compat("580.65.06"), **inside}, on_path)
        yield judge({**compat("535.129.03"), **gpu("NVIDIA GeForce RTX 4090"), **inside}, on_path)


ERROR, WARNING = Severity.ERROR, Severity.WARNING


def test_the_table_is_whole() -> None:
    assert all(
        is_driver_version(row["driver"]) or row["driver"] == "580"
        for row in tables.load_table("cuda_driver")["least"]
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
    assert is_driver_version(str(asked.facts["module"]))


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
