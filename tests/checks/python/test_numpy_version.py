"""numpy-version: the NumPy beside the frameworks is one that all of them accept."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import Risk, Severity, Status
from npudoctor.checks.python.numpy_version import numpy_version
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, folder, package_files, unreadable

# As in the wheels of PyPI.
MINDSPORE = package_files("mindspore", "2.7.0", "Requires-Dist: numpy<2.0.0,>=1.20.0")
NEW_MINDSPORE = package_files("mindspore", "2.10.0", "Requires-Dist: numpy>=1.25.0")
VLLM_ASCEND = package_files("vllm-ascend", "0.11.0", "Requires-Dist: numpy<2.0.0")
TORCHVISION = package_files("torchvision", "0.22.1", "Requires-Dist: numpy", "Requires-Dist: torch (==2.7.1)")
TE = package_files("te", "0.4.0", "Requires-Dist: numpy")


def beside(numpy: str, *packages: dict[str, Content]) -> Asked:
    """The answer where this NumPy, or none, is beside these."""
    files: dict[str, Content] = package_files("numpy", numpy) if numpy else {}
    for more in packages:
        files.update(more)
    return ask(numpy_version, fake_host(files))


@pytest.mark.parametrize(
    ("numpy", "packages"),
    [
        ("1.26.4", [MINDSPORE, VLLM_ASCEND, TORCHVISION, TE]),
        ("1.20.0", [MINDSPORE]),
        ("2.2.6", [NEW_MINDSPORE]),
        ("2.2.6", [TORCHVISION, TE]),
    ],
)
def test_quiet_when_it_suits(numpy: str, packages: list[dict[str, Content]]) -> None:
    told = beside(numpy, *packages)
    assert (told.status, told.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    ("numpy", "packages"),
    [
        ("2.2.6", [package_files("torch-npu", "2.7.1", "Requires-Dist: torch==2.7.1+cpu")]),
        ("", [package_files("torch", "2.7.1")]),
        ("2.0.0", [package_files("torch", "2.9.0", "Requires-Dist: numpy<2; extra == 'old'")]),
    ],
)
def test_skipped_where_nobody_says_which(numpy: str, packages: list[dict[str, Content]]) -> None:
    told = beside(numpy, *packages)
    assert (told.status, told.codes) == (Status.SKIPPED, [])


@pytest.mark.parametrize("numpy", ["2.2.6", "2.0.0rc1", "1.19.5"])
def test_not_what_it_requires(numpy: str) -> None:
    (finding,) = beside(numpy, MINDSPORE, TE).findings
    # MindSpore 2.7.0 runs with it, but for datasets of plain numbers or strings: that is no error.
    assert (finding.code, finding.severity) == ("numpy-version.unsuitable", Severity.WARNING)
    failing = any("Unable to avoid copy" in line for line in finding.evidence)
    assert failing is (numpy == "2.2.6")
    assert f"NumPy {numpy}" in finding.message and "numpy<2.0.0,>=1.20.0" in finding.message
    assert f"numpy {numpy}: {SITE}/numpy-{numpy}.dist-info" in finding.evidence


def test_one_finding_names_all_and_the_line_suits_all() -> None:
    (finding,) = beside("2.2.6", MINDSPORE, VLLM_ASCEND, TORCHVISION).findings
    assert len(finding.evidence) == 4
    assert finding.evidence[3] == "a dataset of plain numbers or strings fails: Unable to avoid copy"
    assert finding.fix is not None and finding.fix.risk is Risk.MANUAL
    (line,) = finding.fix.commands
    kept = "torchvision==0.22.1 mindspore==2.7.0 vllm-ascend==0.11.0"
    assert line == f"/usr/bin/python3 -m pip install {kept} 'numpy<2.0.0,>=1.20.0'"


@pytest.mark.parametrize(
    ("one", "other", "exclude"),
    [
        ("<2.0.0,>=1.20.0", ">=2.0", True),
        ("==1.26.*", "!=1.26.*", True),
        ("<1.24", "==1.24.0", True),
        (">1.26.4", "<1.27", False),
        (">=1.20,<2", "!=1.21.*", False),
        ("===1.26.4", "<3", False),
    ],
)
def test_what_nobody_can_install_is_no_line(one: str, other: str, exclude: bool) -> None:
    first = package_files("mindspore", "2.7.0", f"Requires-Dist: numpy{one}")
    second = package_files("vllm", "0.18.0", f"Requires-Dist: numpy{other}")
    (finding,) = beside("", first, second, TE).findings
    assert finding.fix is not None and bool(finding.fix.commands) is not exclude
    assert ("conflict: no numpy satisfies both" in finding.fix.title) is exclude
    if exclude:
        assert "mindspore 2.7.0" in finding.fix.title and "vllm 0.18.0" in finding.fix.title


def test_missing() -> None:
    (finding,) = beside("", MINDSPORE).findings
    assert (finding.code, finding.severity) == ("numpy-version.missing", Severity.ERROR)
    assert finding.fix is not None and "numpy<2.0.0,>=1.20.0" in finding.fix.commands[0]


@pytest.mark.parametrize(
    ("torch", "numpy", "codes"),
    [
        ("2.1.0", "2.2.0", ["numpy-version.unsuitable"]),
        ("2.2.2+cpu", "2.0.0", ["numpy-version.unsuitable"]),
        ("2.1.0", "1.26.4", []),
        ("2.3.0", "2.2.0", []),
        ("2.3.0a0+git1", "2.2.0", []),
        ("2.1.0", "", []),
    ],
)
def test_a_torch_that_was_built_for_numpy_1(torch: str, numpy: str, codes: list[str]) -> None:
    told = beside(numpy, package_files("torch", torch, "Requires-Dist: filelock"))
    assert told.codes == codes
    assert all("<2" in one.message and one.severity is Severity.ERROR for one in told.findings)
    assert all("132179" in one.evidence[-1] for one in told.findings)
    assert all("numpy<2" in one.fix.commands[0] for one in told.findings if one.fix)


def test_skipped_without_a_framework() -> None:
    assert beside("2.2.6", package_files("pandas", "2.0", "Requires-Dist: numpy<2")).status is Status.SKIPPED


@pytest.mark.parametrize(
    "files",
    [
        {**MINDSPORE, **package_files("numpy", "two")},
        {
            **package_files("mindspore", "2.7.0", "Requires-Dist: numpy < what"),
            **package_files("numpy", "2.0"),
        },
        {f"{SITE}/torch-2.7.1.dist-info/METADATA": unreadable(errno.EIO)},
        {f"{SITE}/mindspore-2.7.0.dist-info": folder(), **package_files("numpy", "2.1.0")},
        {f"{SITE}/mindspore-2.7.0.dist-info/METADATA": "", **package_files("numpy", "2.1.0")},
        {f"{SITE}/mindspore-2.7.0.dist-info/METADATA": "\0\1\2", **package_files("numpy", "2.1.0")},
    ],
)
def test_cannot_tell(files: dict[str, Content]) -> None:
    assert ask(numpy_version, fake_host(files)).status is Status.UNKNOWN


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    for files in ({}, MINDSPORE, {**MINDSPORE, **package_files("numpy", "2.2.6")}):
        yield ask(numpy_version, fake_host(files))
    yield ask(numpy_version, fake_host({**MINDSPORE, **package_files("numpy", "two")}))
