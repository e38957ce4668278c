"""torch-family.other-build: an extension module that asks for what the installed torch does not have."""

from __future__ import annotations

import pytest
from tests.elves import library

from npudoctor import Severity
from npudoctor.checks.python.torch_family import torch_family
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files

NEEDS = "Requires-Dist: torch==2.7.1"


def beside(*needed: str, torch: str = "2.7.1+cpu", cuda: str = "", name: str = "torchvision/_C") -> Asked:
    """torchvision whose extension module needs these, beside a torch for CPUs, or for this CUDA."""
    files: dict[str, Content] = {
        **package_files("torch", torch),
        **package_files("torchvision", "0.22.1", NEEDS),
    }
    files[f"{SITE}/torch/lib/libtorch.so"] = files[f"{SITE}/torch/lib/libc10.so"] = library()
    if cuda:
        files[f"{SITE}/torch/lib/libc10_cuda.so"] = library(f"libcudart.so.{cuda}")
    files[f"{SITE}/{name}.so"] = library(*needed)
    return ask(torch_family, fake_host(files))


@pytest.mark.parametrize(
    ("needed", "cuda"),
    [
        (("libtorch.so", "libc10.so", "libc.so.6"), ""),
        (("libtorch.so", "libc10_cuda.so", "libcudart.so.12"), "12"),
        (("libtorch.so", "libpng16.so"), "12"),
        ((), ""),
    ],
)
def test_quiet_when_built_for_it(needed: tuple[str, ...], cuda: str) -> None:
    assert beside(*needed, cuda=cuda).codes == []


def test_built_for_cuda_beside_a_torch_for_cpus() -> None:
    (finding,) = beside("libtorch.so", "libc10_cuda.so", "libcudart.so.12").findings
    assert (finding.code, finding.severity) == ("torch-family.other-build", Severity.ERROR)
    assert "needs libc10_cuda.so, which torch 2.7.1+cpu lacks" in finding.message
    assert finding.fix is not None
    (line,) = finding.fix.commands
    assert "torchvision==0.22.1+cpu" in line and "/whl/cpu" in line


def test_built_for_another_cuda() -> None:
    needed = ("libtorch.so", "libc10_cuda.so", "libcudart.so.12")
    (finding,) = beside(*needed, torch="2.7.1", cuda="13").findings
    assert "was built for CUDA 12, but torch 2.7.1 for CUDA 13" in finding.message
