"""torch-family: torchvision, torchaudio and triton are those that go with the installed torch."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.checks.python.test_torch_builds import beside as beside_builds

from npudoctor import Risk, Severity, Status
from npudoctor.checks.python.torch_family import torch_family
from npudoctor.facts.python.torch_builds import OF_TORCH
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

# As in the wheels of PyPI.
VISION = package_files("torchvision", "0.22.1", "Requires-Dist: numpy", "Requires-Dist: torch (==2.7.1)")
AUDIO = package_files("torchaudio", "2.7.1", "Requires-Dist: torch==2.7.1")
TRITON = package_files("triton", "3.3.1", "Requires-Dist: setuptools>=40.8.0")
ASCEND = package_files("triton-ascend", "3.2.0")
# The list of files that triton-ascend brought, and its own first file, which is empty here.
EMPTY = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
RECORD = {f"{SITE}/triton_ascend-3.2.0.dist-info/RECORD": f"triton/__init__.py,sha256={EMPTY},0\n"}

AGAIN = "/usr/bin/python3 -m pip install --force-reinstall --no-deps --no-index --find-links npudoctor-wheels"


def beside(torch: str, *packages: Mapping[str, Content]) -> Asked:
    """The answer where this torch, or none, is beside these."""
    files: dict[str, Content] = package_files("torch", torch) if torch else {}
    for more in packages:
        files.update(more)
    return ask(torch_family, fake_host(files))


@pytest.mark.parametrize(
    ("torch", "packages"),
    [
        ("2.7.1", [VISION, AUDIO]),
        ("2.7.1+cpu", [VISION, AUDIO]),
        ("2.7.1+cu126", [VISION, TRITON]),
        ("2.5.1", [package_files("torchaudio", "2.5.1+cpu", "Requires-Dist: torch==2.5.1+cpu")]),
    ],
)
def test_quiet_when_they_go_together(torch: str, packages: list[dict[str, Content]]) -> None:
    told = beside(torch, *packages)
    assert (told.status, told.codes) == (Status.OK, [])


@pytest.mark.parametrize("packages", [[], [ASCEND], [package_files("torchvision", "0.22.1")]])
def test_skipped_where_nothing_requires_a_torch(packages: list[dict[str, Content]]) -> None:
    asked = beside("2.7.1", *packages)
    assert (asked.status, asked.codes) == (Status.SKIPPED, [])


def test_another_torch() -> None:
    told = beside("2.8.0", VISION, AUDIO)
    assert told.codes == ["torch-family.mismatch"] * 2
    finding = told.findings[0]
    assert finding.severity is Severity.ERROR and finding.echo_of == ("torch-npu.torch-mismatch",)
    for words in ("torchvision 0.22.1", "torch==2.7.1", "torch 2.8.0"):
        assert words in finding.message
    assert finding.fix is not None and finding.fix.risk is Risk.MANUAL
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install torch==2.8.0 'torchvision==0.23.*'",)


def test_a_post_release_is_a_warning() -> None:
    (finding,) = beside("2.7.1.post1", VISION).findings
    assert (finding.code, finding.severity) == ("torch-family.mismatch", Severity.WARNING)


def test_without_torch() -> None:
    (finding,) = beside("", VISION).findings
    assert (finding.code, finding.severity) == ("torch-family.torch-missing", Severity.ERROR)
    assert finding.echo_of == ("torch-npu.torch-missing",)
    assert finding.fix is not None and finding.fix.commands[0].endswith("install torch==2.7.1")


def test_a_build_stays_that_build() -> None:
    """torchvision of PyPI is made for CUDA: beside torch for CPUs it does not load."""
    index = "--extra-index-url https://download.pytorch.org/whl/cpu"
    pip = "/usr/bin/python3 -m pip install"
    (finding,) = beside("2.8.0+cpu", VISION).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"{pip} torch==2.8.0+cpu 'torchvision==0.23.*' {index}",)
    built = package_files("torchvision", "0.22.1+cpu", "Requires-Dist: torch==2.7.1")
    (finding,) = beside("", built).findings
    assert finding.fix is not None and finding.fix.commands == (f"{pip} torch==2.7.1+cpu {index}",)


def test_on_a_machine_with_gpus_triton_stays() -> None:
    (finding,) = beside("2.7.1", TRITON, ASCEND).findings
    assert finding.fix is not None and finding.fix.commands[1].endswith("pip uninstall triton-ascend")
    assert finding.fix.title.startswith("keep triton only")


def test_triton_beside_triton_ascend() -> None:
    (finding,) = beside("2.7.1", TRITON, ASCEND, package_files("torch-npu", "2.7.1")).findings
    assert (finding.code, finding.severity) == ("torch-family.triton-mixed", Severity.WARNING)
    assert f"{SITE}/triton" in finding.message
    assert finding.fix is not None and finding.fix.commands == (
        "/usr/bin/python3 -m pip download --no-deps --dest npudoctor-wheels triton-ascend==3.2.0",
        "/usr/bin/python3 -m pip uninstall triton",
        f"{AGAIN} triton-ascend==3.2.0",
    )
    assert "first line that fails" in finding.fix.title and "index" not in finding.fix.title


def test_a_release_of_triton_ascend_that_pypi_has_not() -> None:
    (finding,) = beside("", TRITON, package_files("triton-ascend", "3.2.1")).findings
    assert finding.fix is not None and "the index that vllm-ascend's installation page" in finding.fix.title


def test_no_triton_comes_along_with_torch() -> None:
    """torch on PyPI requires triton on x86-64, which shares its folder with triton-ascend."""
    (finding,) = beside("", VISION, ASCEND).findings
    assert finding.fix is not None and finding.fix.commands[0].endswith("install --no-deps torch==2.7.1")
    assert "triton-ascend" in finding.fix.title
    files = {**VISION, **ASCEND}
    (finding,) = ask(torch_family, fake_host(files, machine="aarch64")).findings
    assert finding.fix is not None and finding.fix.commands[0].endswith("pip install torch==2.7.1")
    (finding,) = beside("2.8.0", VISION, ASCEND).findings
    assert finding.fix is not None and finding.fix.commands == ()
    told = ("Requires-Dist: torch==2.8.0", "Requires-Dist: torchvision==0.23.0")
    (finding,) = beside("2.8.0", VISION, ASCEND, package_files("vllm-ascend", "0.13.0", *told)).findings
    assert finding.fix is not None and finding.fix.commands[0].endswith("--no-deps torchvision==0.23.0")


def test_triton_in_place_of_triton_ascend() -> None:
    (finding,) = beside("2.7.1", TRITON, ASCEND, RECORD, {f"{SITE}/triton/__init__.py": "other"}).findings
    assert (finding.code, finding.severity) == ("torch-family.triton-mixed", Severity.WARNING)
    assert "overwritten" in finding.message


def test_triton_ascend_came_last() -> None:
    (finding,) = beside("2.7.1", TRITON, ASCEND, RECORD, {f"{SITE}/triton/__init__.py": ""}).findings
    assert (finding.code, finding.severity) == ("torch-family.triton-mixed", Severity.INFO)


@pytest.mark.parametrize(
    ("content", "severity"), [("", Severity.INFO), ("triton's own", Severity.WARNING)], ids=["last", "first"]
)
def test_a_file_that_both_bring_alike_tells_nothing(content: str, severity: Severity) -> None:
    # As of triton 3.2.0 and triton-ascend 3.2.0, its fork: their first files are the same.
    same = f"triton/__init__.py,sha256={EMPTY},0\n"
    files = {
        f"{SITE}/triton_ascend-3.2.0.dist-info/RECORD": (
            f"triton/backends/own.py,sha256=own,1\ntriton/testing.py,sha256={EMPTY},0\n{same}"
        ),
        f"{SITE}/triton-3.3.1.dist-info/RECORD": f"{same}triton/testing.py,sha256=other,12\n",
        f"{SITE}/triton/__init__.py": "",
        f"{SITE}/triton/testing.py": content,
    }
    (finding,) = beside("2.7.1", TRITON, ASCEND, files).findings
    assert (finding.code, finding.severity) == ("torch-family.triton-mixed", severity)


def test_lists_of_the_same_files_tell_nothing() -> None:
    same = f"triton/__init__.py,sha256={EMPTY},0\n"
    lists = [f"{SITE}/{name}.dist-info/RECORD" for name in ("triton_ascend-3.2.0", "triton-3.3.1")]
    (finding,) = beside("2.7.1", TRITON, ASCEND, dict.fromkeys(lists, same)).findings
    assert (finding.code, finding.severity) == ("torch-family.triton-mixed", Severity.WARNING)
    assert "both install into the folder" in finding.message


def test_an_image_is_entered_to_mend_it() -> None:
    files = {f"/srv/image{path}": text for path, text in {**TRITON, **ASCEND}.items()}
    (finding,) = ask(torch_family, fake_host(files, root="/srv/image")).findings
    assert finding.fix is not None and finding.fix.needs_root
    assert all(line.startswith("chroot /srv/image /usr/bin/python3") for line in finding.fix.commands)


@pytest.mark.parametrize("packages", [[], [TRITON], [ASCEND], [package_files("torchmetrics", "1.0")]])
def test_skipped_without_pytorch(packages: list[dict[str, Content]]) -> None:
    assert beside("", *packages).status is Status.SKIPPED


@pytest.mark.parametrize(
    "files",
    [
        {**VISION, **package_files("torch", "two")},
        {
            **package_files("torchvision", "0.22.1", "Requires-Dist: torch == what"),
            **package_files("torch", "2.0"),
        },
        {f"{SITE}/torch-2.7.1.dist-info/METADATA": unreadable(errno.EIO)},
    ],
)
def test_cannot_tell(files: dict[str, Content]) -> None:
    assert ask(torch_family, fake_host(files)).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("torch", "member", "wanted"),
    [
        ("2.5.1", ("torchaudio", "2.4.1", "Requires-Dist: torch==2.4.1"), "'torchaudio==2.5.*'"),
        ("2.12.0", ("torchaudio", "2.4.1", "Requires-Dist: torch==2.4.1"), "'torchaudio>=2.11'"),
        ("2.5.1", ("torchvision", "0.19.1", "Requires-Dist: torch==2.4.1"), "'torchvision==0.20.*'"),
    ],
)
def test_the_newest_is_not_taken(torch: str, member: tuple[str, ...], wanted: str) -> None:
    (finding,) = beside(torch, package_files(*member)).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"/usr/bin/python3 -m pip install torch=={torch} {wanted}",)


def test_a_torch_that_nobody_knows_is_left_to_pip() -> None:
    (finding,) = beside("3.1.0", VISION).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install --upgrade torch==3.1.0 torchvision",)


@pytest.mark.parametrize(
    ("library", "of_torch"),
    [
        ("libtorch_cuda.so", True),
        ("libc10.so", True),
        ("libtorchaudio.so", False),
        ("libcudart.so.12", False),
    ],
)
def test_the_libraries_of_torch(library: str, of_torch: bool) -> None:
    assert bool(OF_TORCH.match(library)) is of_torch


SCENE_VISION = package_files("torchvision", "0.22.1", "Requires-Dist: torch (==2.7.1)")
BOTH = {**package_files("triton", "3.3.1"), **package_files("triton-ascend", "3.2.0")}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    gone = {f"{SITE}/triton_ascend-3.2.0.dist-info/RECORD": "triton/__init__.py,sha256=other,0\n"}
    for files in (
        {},
        SCENE_VISION,
        {**SCENE_VISION, **package_files("torch", "2.8.0")},
        BOTH,
        {**BOTH, **gone},
    ):
        yield ask(torch_family, fake_host(files))
    for torch in ("2.7.1+cpu", "2.7.1"):
        yield beside_builds("libtorch.so", "libc10_cuda.so", "libcudart.so.12", torch=torch)
    yield beside_builds("libtorch.so", "libc10_cuda.so", "libcudart.so.12", torch="2.7.1", cuda="13")
