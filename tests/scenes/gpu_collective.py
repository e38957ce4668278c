"""Machines with a MindSpore for GPUs, with and without what its communication needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.gpu.gpu_collective import gpu_collective
from npudoctor.testing import Asked, Content, ask, fake_host

from ..elves import library  # noqa: TID252
from .nccl_version import ENV, GPUS, SITE, mindspore, nccl

NVIDIA = f"{SITE}/mindspore/lib/libnvidia_collective.so"
MPI: dict[str, Content] = {"/usr/lib64/libmpi.so.40": library(soname="libmpi.so.40")}


def whole() -> dict[str, Content]:
    """MindSpore 1.10 with its NCCL; no MPI."""
    return {**mindspore(bundled=nccl("2.7.6", "11.1")), NVIDIA: library("libnccl.so.2", rpath="$ORIGIN")}


def judge(files: Mapping[str, Content], variables: Optional[Mapping[str, str]] = None, **more: Any) -> Asked:
    """What gpu-collective says of it."""
    host = fake_host(files, variables=variables, python=f"{ENV}/bin/python3", search_path=(SITE,), **more)
    return ask(gpu_collective, host)


def scene(tmp: Path) -> Iterator[Asked]:
    """All that gpu-collective can say."""
    yield judge({})
    yield judge(GPUS)
    yield judge(whole())
    yield judge(mindspore("1.6.2"))
