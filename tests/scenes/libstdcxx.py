"""Machines whose C and C++ libraries are new enough for a framework, or are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.python.libstdcxx import libstdcxx
from npudoctor.testing import SITE, Asked, Content, Node, ask, fake_host, folder

from ..elves import library  # noqa: TID252

LIB = "/lib/x86_64-linux-gnu"
LOADER = "/lib64/ld-linux-x86-64.so.2"
STDCXX = "libstdc++.so.6"
OLD, NEW = ["GLIBCXX_3.4", "GLIBCXX_3.4.19"], ["GLIBCXX_3.4", "GLIBCXX_3.4.19", "GLIBCXX_3.4.29"]
MODULE = f"{SITE}/mindspore/_c_expression.cpython-311-x86_64-linux-gnu.so"
CANN: dict[str, Content] = {"/usr/local/Ascend/cann/compiler/version.info": "Version=8.5.0\n"}


def stdcxx(versions: Sequence[str]) -> bytes:
    """A libstdc++ that offers these versions."""
    return library(soname=STDCXX, defines=versions)


def machine(c: str = "GLIBC_2.35", cxx: Sequence[str] = NEW) -> dict[str, Content]:
    """A system with these newest versions, and MindSpore that wants GLIBC_2.27 and GLIBCXX_3.4.29."""
    offered = [f"GLIBC_2.{minor}" for minor in range(2, int(c.split(".")[1]) + 1)]
    wants = {"libc.so.6": ["GLIBC_2.17", "GLIBC_2.27"], STDCXX: ["GLIBCXX_3.4", "GLIBCXX_3.4.29"]}
    return {
        "/usr/bin/python3": library("libc.so.6", interpreter=LOADER),
        f"{LIB}/libc.so.6": library(soname="libc.so.6", defines=offered),
        f"{LIB}/{STDCXX}": stdcxx(cxx),
        MODULE: library(STDCXX, "libc.so.6", wants=wants),
    }


def openmp(glibc: str, own: str = "/opt/conda/lib/libgomp.so.1") -> dict[str, Content]:
    """An aarch64 conda environment with torch, which brings its own libgomp, on a system with this glibc."""
    lib, arm = "/lib/aarch64-linux-gnu", "aarch64"
    offered = [f"GLIBC_2.{minor}" for minor in range(17, int(glibc.split(".")[1]) + 1)]
    torch = "/opt/conda/lib/python3.11/site-packages"
    mine = f"{torch}/torch.libs/libgomp-0f9e2209.so.1.0.0"
    return {
        "/opt/conda/bin/python3": library("libc.so.6", interpreter="/lib/ld-linux-aarch64.so.1", machine=arm),
        f"{lib}/libc.so.6": library(soname="libc.so.6", defines=offered, machine=arm),
        f"{torch}/torch/_C.cpython-311-aarch64-linux-gnu.so": library(
            mine.rpartition("/")[2], rpath="$ORIGIN/../torch.libs", machine=arm
        ),
        mine: library("libc.so.6", soname=mine.rpartition("/")[2], machine=arm),
        own: library("libc.so.6", soname="libgomp.so.1", machine=arm),
    }


CONDA: dict[str, Any] = {
    "python": "/opt/conda/bin/python3",
    "machine": "aarch64",
    "search_path": ["/opt/conda/lib/python3.11/site-packages"],
}


def gcc(path: str = "/usr/bin/g++", permissions: int = 0o755) -> dict[str, Content]:
    """A compiler."""
    return {path: Node(b"", permissions=permissions)}


def judge(files: Mapping[str, Content], variables: Optional[Mapping[str, str]] = None, **more: Any) -> Asked:
    """What libstdcxx says of it."""
    return ask(libstdcxx, fake_host({"/proc/self": folder(), **files}, variables=variables, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """All that libstdcxx can say."""
    yield judge({})
    yield judge(machine("GLIBC_2.23"))
    yield judge({**machine(), f"/old/{STDCXX}": stdcxx(OLD)}, {"LD_LIBRARY_PATH": "/old"})
    yield judge({**machine(), **CANN}, expect="npu")
    yield judge(openmp("2.31"), **CONDA)
    cc1plus = {"/usr/lib/gcc/x86_64-redhat-linux/4.8.5/cc1plus": ""}
    yield judge({**machine(), **CANN, **gcc(), **cc1plus}, expect="npu")
