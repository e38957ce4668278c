"""Machines on which a framework loads its own libraries, or what a variable puts in their place."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.python.loaded_libraries import loaded_libraries
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, folder

from ..elves import library  # noqa: TID252

LIB, LOADER = "/lib/x86_64-linux-gnu", "/lib64/ld-linux-x86-64.so.2"
MODULE = f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so"
OWN = f"{SITE}/torch/lib"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 165521\n"


def c10(*exports: str, imports: tuple[str, ...] = ()) -> bytes:
    """A library of torch."""
    return library("libc.so.6", soname="libc10.so", exports=exports, imports=("malloc", *imports))


def machine(runpath: bool = True) -> dict[str, Content]:
    """torch, whose extension module finds libc10 by RUNPATH, as wheels of our days do, or by RPATH."""
    wants = ("c10_new", "PyInit", "GOMP_parallel")
    led = "$ORIGIN/lib"
    return {
        "/proc/self": folder(),
        "/usr/bin/python3": library("libc.so.6", interpreter=LOADER, exports=("PyInit",)),
        LOADER: library(exports=("__tls_get_addr",)),
        f"{LIB}/libc.so.6": library(soname="libc.so.6", exports=("malloc",)),
        f"{LIB}/libgomp.so.1": library("libc.so.6", soname="libgomp.so.1", exports=("GOMP_parallel",)),
        f"{OWN}/libc10.so": c10("c10_new", "c10_old"),
        MODULE: library(
            "libc10.so",
            "libgomp.so.1",
            imports=wants,
            runpath=led if runpath else None,
            rpath=None if runpath else led,
        ),
    }


def cut() -> bytes:
    """A library whose first segment is longer than the file, as of an interrupted copy."""
    whole = bytearray(library("libc.so.6", soname="libgomp.so.1", exports=("GOMP_parallel",)))
    struct.pack_into("<Q", whole, 64 + 32, 1 << 20)
    return bytes(whole)


def judge(files: Mapping[str, Content], variables: Optional[Mapping[str, str]] = None, **more: Any) -> Asked:
    """What loaded-libraries says of it."""
    return ask(loaded_libraries, fake_host(files, variables=variables, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each way of putting it, each ending."""
    led = {"LD_LIBRARY_PATH": "/other"}
    yield judge({})
    yield judge({**machine(), "/other/libgomp.so.1": LFS}, led)
    yield judge({**machine(), "/other/libgomp.so.1": cut()}, led)
    yield judge({**machine(), "/other/libc10.so": c10("c10_old")}, led)
    yield judge({**machine(), "/other/libc10.so": c10("c10_new", "c10_old", "more")}, led)
    gone = machine()
    del gone[f"{LIB}/libgomp.so.1"]
    yield judge(gone)
    beside: dict[str, Content] = {"/other/libgomp.so.1": LFS, f"{OWN}/libextra.so": library("libc.so.6")}
    yield judge({**machine(), **beside}, {"LD_LIBRARY_PATH": "/other:"})
    module = library("libgomp.so.1", wants={"libgomp.so.1": ["GOMP_4.0"]}, runpath="$ORIGIN/lib")
    old = library(soname="libgomp.so.1", defines=["GOMP_1.0"])
    yield judge({**machine(), MODULE: module, f"{OWN}/libgomp.so.1": old})
