"""Machines with an NVIDIA driver and frameworks for its GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.gpu.cuda_driver import cuda_driver
from npudoctor.testing import Asked, Content, ask, device, fake_host, link

from ..elves import library  # noqa: TID252

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
