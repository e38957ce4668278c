"""Machines of real ELF files whose libraries the loader finds or does not: CANN, driver, framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.cann.library_path import BASIC, library_path
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, folder, link

from ..elves import library  # noqa: TID252

ASCEND = "/usr/local/Ascend"
TOOLKIT = f"{ASCEND}/ascend-toolkit"
LATEST = f"{TOOLKIT}/latest"
DRIVER = f"{ASCEND}/driver/lib64"
SOURCED = [f"{LATEST}/lib64", f"{LATEST}/lib64/plugin/opskernel", f"{LATEST}/lib64/plugin/nnengine"]
DRIVERS = [f"{DRIVER}/common", f"{DRIVER}/driver"]
ALL = [*SOURCED, *DRIVERS]
NPU = {"/dev/davinci0": folder(), "/dev/davinci_manager": folder()}


def cann(
    product: str = "8.1.RC1", root: str = TOOLKIT, machine: str = "aarch64", latest: bool = True
) -> dict[str, Content]:
    """A release with the libraries that every job loads, in the layout of 5.1 to 8.3."""
    top = f"{root}/{product}"
    numbers = f"Version=7.7\nversion_dir={product}\n"
    files: dict[str, Content] = {
        f"{top}/{part}/version.info": numbers for part in ("compiler", "runtime", "opp")
    }
    files[f"{top}/lib64"] = link(f"{machine}-linux/lib64")
    for name, needed in (
        ("libascendcl.so", ["libruntime.so", "libc.so.6"]),
        ("libhccl.so", ["libruntime.so"]),
        ("libge_runner.so", ["libgraph.so"]),
        ("libgraph.so", []),
        ("libruntime.so", ["libascend_hal.so"]),
    ):
        files[f"{top}/{machine}-linux/lib64/{name}"] = library(*needed, soname=name, machine=machine)
    if latest:
        names = ("compiler", "runtime", "opp", "lib64")
        files.update({f"{root}/latest/{name}": link(f"../{product}/{name}") for name in names})
        files[f"{root}/set_env.sh"] = "export LD_LIBRARY_PATH=\n"
    return files


def system(machine: str = "aarch64") -> dict[str, Content]:
    """The interpreter and the C library."""
    interpreter = "/lib/ld-linux-aarch64.so.1" if machine == "aarch64" else "/lib64/ld-linux-x86-64.so.2"
    return {
        "/usr/bin/python3": library("libc.so.6", machine=machine, interpreter=interpreter),
        f"/lib/{machine}-linux-gnu/libc.so.6": library(soname="libc.so.6", machine=machine),
    }


def driver(machine: str = "aarch64") -> dict[str, Content]:
    """The driver's libraries, in their two folders."""
    return {
        f"{DRIVER}/driver/libascend_hal.so": library("libmmpa.so", machine=machine),
        f"{DRIVER}/common/libmmpa.so": library(machine=machine),
        f"{ASCEND}/driver/version.info": "Version=25.0.rc1.1\n",
    }


def torch_npu(*needed: str) -> dict[str, Content]:
    """torch and torch_npu with their search paths, as their wheels have them."""
    wants = needed or ("libhccl.so", "libascendcl.so", "libge_runner.so")
    tag = "cpython-311-aarch64-linux-gnu.so"
    return {
        f"{SITE}/torch/_C.{tag}": library("libtorch.so", rpath="$ORIGIN/lib", machine="aarch64"),
        f"{SITE}/torch/lib/libtorch.so": library(soname="libtorch.so", machine="aarch64"),
        f"{SITE}/torch_npu/_C.{tag}": library("libtorch_npu.so", rpath="$ORIGIN/lib", machine="aarch64"),
        f"{SITE}/torch_npu/lib/libtorch_npu.so": library(
            "libtorch.so", *wants, rpath="$ORIGIN/lib/:$ORIGIN/", machine="aarch64"
        ),
    }


def mindspore() -> dict[str, Content]:
    """MindSpore with its plug-in for Ascend, and an older one that is not taken."""
    top = f"{SITE}/mindspore"
    return {
        f"{top}/_c_expression.cpython-311-aarch64-linux-gnu.so": library(machine="aarch64"),
        f"{top}/lib/plugin/libmindspore_ascend.so.1": library("libgone.so", machine="aarch64"),
        f"{top}/lib/plugin/libmindspore_ascend.so.2": library("libge_runner.so", machine="aarch64"),
    }


HEALTHY = {**system(), **cann(), **driver(), **torch_npu(), "/proc/self/cwd": link("/job"), "/job": folder()}
NAMED = {"ASCEND_HOME_PATH": LATEST, "ASCEND_TOOLKIT_HOME": LATEST}


def judge(
    files: Mapping[str, Content], entries: Optional[list[str]], *, wanted: str = "npu", **more: Any
) -> Asked:
    """What library-path says of this machine with these entries of LD_LIBRARY_PATH."""
    variables = {**NAMED, "LD_LIBRARY_PATH": ":".join(entries)} if entries is not None else {}
    more.setdefault("machine", "aarch64")
    more.setdefault("packages", {"torch-npu": "2.5.1"})
    return ask(library_path, fake_host(files, variables=variables, expect=wanted, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """All that library-path can say."""
    yield judge({}, None)
    yield judge(HEALTHY, None)
    yield judge(HEALTHY, None, wanted="none")
    yield judge(HEALTHY, SOURCED)
    gone = {path: content for path, content in HEALTHY.items() if "libascend_hal" not in path}
    yield judge(gone, SOURCED)
    yield judge({path: content for path, content in HEALTHY.items() if "libmmpa" not in path}, ALL)
    yield judge({**HEALTHY, **torch_npu(*(f"lib{letter}.so" for letter in "abcdefgh"))}, ALL)
    yield judge({**HEALTHY, "/first/libhccl.so": "text"}, ["/first", *ALL])
    stubs = {f"{TOOLKIT}/8.1.RC1/devlib/libascend_hal.so": library(machine="aarch64")}
    stubs[f"{LATEST}/devlib"] = link("../8.1.RC1/devlib")  # type: ignore[assignment]
    yield judge({**HEALTHY, **stubs}, [f"{LATEST}/devlib", *ALL])
    yield judge({**gone, **stubs}, [*ALL, f"{LATEST}/devlib"])
    older = {**HEALTHY, **cann("8.0.0", "/opt/old", latest=False)}
    yield judge(older, ["/opt/old/8.0.0/lib64", *ALL])
    yield judge(older, [*ALL, "/opt/old/8.0.0/lib64"])
    copied: dict[str, Content] = {"/opt/libs/libhccl.so": library(soname="libhccl.so", machine="aarch64")}
    yield judge({**HEALTHY, **copied}, ["/opt/libs", *ALL])
    yield judge(HEALTHY, [*ALL, ""])
    yield judge({**HEALTHY, "/job": folder(0o777)}, [*ALL, ""])
    yield judge({**HEALTHY, "/job/libhccl.so": library(machine="aarch64")}, ["", *ALL])
    yield judge(HEALTHY, [*ALL, "lib", "~/lib", "~bob/lib"])
    for entry in ("lib", "~"):
        yield judge({**HEALTHY, f"/job/{entry}": folder(0o777)}, [*ALL, entry])
        yield judge({**HEALTHY, f"/job/{entry}/libhccl.so": library(machine="aarch64")}, [entry, *ALL])
    riscv = {"/usr/bin/python3": link("/nowhere")}
    yield judge({**HEALTHY, **riscv}, ALL, machine="riscv64")


__all__ = ["ALL", "BASIC", "HEALTHY", "judge", "scene"]
