"""Machines with frameworks for GPUs and an NCCL that they would load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.gpu.nccl_version import nccl_version
from npudoctor.testing import Asked, Content, ask, device, fake_host, package_files

from ..elves import library  # noqa: TID252

ENV = "/opt/env"
SITE = f"{ENV}/lib/python3.11/site-packages"
LOADER = "/lib64/ld-linux-x86-64.so.2"
NAME = "libnccl.so.2"
OWN = f"{SITE}/nvidia/nccl/lib/{NAME}"
CALLED = ("ncclAllReduce", "ncclCommRegister")
GPUS: dict[str, Content] = {"/dev/nvidia0": device(), "/dev/nvidia1": device()}


def nccl(version: str = "2.27.5", cuda: str = "12.9", *exports: str) -> bytes:
    """A libnccl with its constants."""
    told = f"NCCL version information\0NCCL version {version}+cuda{cuda}\0NCCL version %s\0".encode()
    return library(soname=NAME, exports=exports or CALLED, rodata=told if version else b"no words\0")


def python() -> dict[str, Content]:
    """Its program alone."""
    return {f"{ENV}/bin/python3": library(interpreter=LOADER)}


def torch(own: Optional[bytes] = None, *, needed: str = "nvidia-nccl-cu12 (==2.27.5)") -> dict[str, Content]:
    """A torch for CUDA 12 with its NCCL, as pip installs them."""
    lib = f"{SITE}/torch/lib"
    files: dict[str, Content] = {
        **python(),
        **GPUS,
        f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so": library("libtorch_cuda.so", rpath="$ORIGIN/lib"),
        f"{lib}/libtorch_global_deps.so": library(),
        f"{lib}/libtorch_cuda.so": library(
            NAME, imports=CALLED, runpath="$ORIGIN/../../nvidia/nccl/lib:$ORIGIN", soname="libtorch_cuda.so"
        ),
        **package_files("torch", "2.9.0", f'Requires-Dist: {needed}; platform_system == "Linux"', site=SITE),
    }
    if own is not None:
        files[OWN] = own
        files.update(package_files("nvidia-nccl-cu12", "2.27.5", site=SITE))
    return files


def mindspore(version: str = "1.10.0", bundled: Optional[bytes] = None) -> dict[str, Content]:
    """MindSpore for GPUs; from 1.7 on it brings its NCCL."""
    lib = f"{SITE}/mindspore/lib"
    files: dict[str, Content] = {
        **python(),
        **GPUS,
        f"{SITE}/mindspore/_c_expression.cpython-311-x86_64-linux-gnu.so": library(rpath="$ORIGIN/lib"),
        f"{lib}/libgpu_collective.so": library("libmpi.so.40", NAME, rpath="$ORIGIN", imports=CALLED[:1]),
        **package_files("mindspore-gpu", version, site=SITE),
    }
    if bundled is not None:
        files[f"{lib}/{NAME}"] = bundled
    return files


def paddle(named: bool = True, cuda: str = "12.3") -> dict[str, Content]:
    """Paddle for GPUs; `named`: its import says where NCCL is."""
    text = 'set_flags({"FLAGS_nccl_dir": nccl_lib_path})\n' if named else ""
    return {
        **python(),
        **GPUS,
        f"{SITE}/paddle/__init__.py": text,
        f"{SITE}/paddle/version/__init__.py": f"full_version    = '3.0.0'\ncuda_version    = '{cuda}'\n",
        **package_files("paddlepaddle-gpu", "3.0.0", "Requires-Dist: nvidia-nccl-cu12==2.27.5", site=SITE),
    }


def judge(files: Mapping[str, Content], variables: Optional[Mapping[str, str]] = None, **more: Any) -> Asked:
    """What nccl-version says of it."""
    host = fake_host(files, variables=variables, python=f"{ENV}/bin/python3", search_path=(SITE,), **more)
    return ask(nccl_version, host)


OTHER = {"LD_LIBRARY_PATH": "/opt/nccl"}
CU13 = package_files("nvidia-nccl-cu13", "2.28.3", site=SITE)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judge({})
    yield judge({**python(), **GPUS})
    yield judge(torch())
    yield judge({**torch(nccl()), f"/opt/nccl/{NAME}": nccl("2.18.1")}, OTHER)
    yield judge({**torch(nccl()), f"/opt/nccl/{NAME}": nccl("2.18.1", "12.1", "ncclAllReduce")}, OTHER)
    yield judge({**torch(nccl()), f"/opt/nccl/{NAME}": nccl("2.30.1")}, OTHER)
    yield judge({**torch(nccl("2.28.3", "13.0")), **CU13})
    yield judge(mindspore())
    yield judge(mindspore(bundled=nccl("")))
