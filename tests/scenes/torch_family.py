"""Machines on which torch-family says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.torch_family import torch_family
from npudoctor.testing import SITE, Asked, ask, fake_host, package_files

from ..checks.python.test_torch_builds import beside  # noqa: TID252

VISION = package_files("torchvision", "0.22.1", "Requires-Dist: torch (==2.7.1)")
BOTH = {**package_files("triton", "3.3.1"), **package_files("triton-ascend", "3.2.0")}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    gone = {f"{SITE}/triton_ascend-3.2.0.dist-info/RECORD": "triton/__init__.py,sha256=other,0\n"}
    for files in ({}, VISION, {**VISION, **package_files("torch", "2.8.0")}, BOTH, {**BOTH, **gone}):
        yield ask(torch_family, fake_host(files))
    for torch in ("2.7.1+cpu", "2.7.1"):
        yield beside("libtorch.so", "libc10_cuda.so", "libcudart.so.12", torch=torch)
    yield beside("libtorch.so", "libc10_cuda.so", "libcudart.so.12", torch="2.7.1", cuda="13")
