"""Machines with a MindSpore for GPUs and one, another, or no Open MPI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.gpu.openmpi import openmpi
from npudoctor.testing import Asked, Content, Node, ask, fake_host, link

from ..elves import library  # noqa: TID252
from .gpu_collective import whole
from .nccl_version import ENV, GPUS, SITE

PATH = {"PATH": "/usr/bin"}


def mpi(
    version: str = "4.1.4", number: str = "40.30.4", prefix: str = "/usr", lib: str = "lib64"
) -> dict[str, Content]:
    """Open MPI with its launcher, as a distribution has them."""
    words = f"Open MPI v%d.%d.%d\0v{version}\0".encode() if version else b"Open MPI\0"
    return {
        f"{prefix}/{lib}/libmpi.so.40": link(f"libmpi.so.{number}"),
        f"{prefix}/{lib}/libmpi.so.{number}": library(soname="libmpi.so.40", rodata=words),
        f"{prefix}/bin/mpirun": link("orterun"),
        f"{prefix}/bin/orterun": Node(b"\x7fELF", permissions=0o755),
    }


def judge(
    files: Mapping[str, Content], variables: Optional[Mapping[str, str]] = None, euid: int = 1000, **more: Any
) -> Asked:
    """What openmpi says of it."""
    given = PATH if variables is None else variables
    host = fake_host(
        files, variables=given, python=f"{ENV}/bin/python3", search_path=(SITE,), euid=euid, **more
    )
    return ask(openmpi, host)


OTHER: dict[str, Content] = {
    "/opt/mpich/bin/mpirun": link("mpiexec.hydra"),
    "/opt/mpich/bin/mpiexec.hydra": Node(b"\x7fELF", permissions=0o755),
}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judge({})
    yield judge(GPUS)
    yield judge(whole())
    yield judge({**whole(), **mpi()}, {**PATH, "MS_ROLE": "MS_WORKER"})
    yield judge({**whole(), **mpi()}, {})
    yield judge({**whole(), **mpi("3.1.6", "40.10.4")}, euid=0)
    yield judge({**whole(), **mpi(), **OTHER}, {"PATH": "/opt/mpich/bin:/usr/bin"})
    yield judge(
        {**whole(), **mpi(), **mpi("5.0.3", "40.40.3", "/opt/ompi", "lib")}, {"PATH": "/opt/ompi/bin"}
    )
