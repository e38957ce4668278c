"""openmpi: there is an Open MPI with which MindSpore can be started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.checks.gpu.test_gpu_collective import whole
from tests.checks.gpu.test_nccl_version import ENV, GPUS, SITE, torch
from tests.elves import library

from npudoctor import Severity, Status
from npudoctor.checks.gpu.openmpi import openmpi
from npudoctor.testing import Asked, Content, Node, ask, fake_host, link

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


@pytest.mark.parametrize(
    ("files", "version"),
    [
        (mpi(), "4.1.4"),
        (mpi("4.0.3", "40.20.3"), "4.0.3"),
        (mpi("5.0.7rc1", "40.40.7"), "5.0.7rc1"),
        (mpi("", "40.20.2"), "4.0"),  # built from a checkout: the file's name tells its series
        (mpi("", "12.2.2"), None),
    ],
)
def test_quiet_when_well(files: dict[str, object], version: object) -> None:
    asked = judge({**whole(), **files})  # type: ignore[dict-item]
    assert (asked.status, asked.codes, asked.facts["version"]) == (Status.OK, [], version)


@pytest.mark.parametrize(
    ("variables", "severity"), [({"OMPI_COMM_WORLD_SIZE": "4"}, Severity.ERROR), ({}, Severity.WARNING)]
)
def test_missing(variables: dict[str, str], severity: Severity) -> None:
    (finding,) = judge(whole(), variables).findings
    assert (finding.code, finding.severity) == ("openmpi.missing", severity)
    assert "libmpi.so.40" in finding.message


@pytest.mark.parametrize("files", [mpi("4.0.1", "40.20.1"), mpi("", "40.10.4")])
def test_too_old(files: dict[str, object]) -> None:
    (finding,) = judge({**whole(), **files}).findings  # type: ignore[dict-item]
    assert (finding.code, finding.severity) == ("openmpi.too-old", Severity.INFO)


def test_the_launcher() -> None:
    files = {**whole(), **mpi()}
    assert judge(files, {"PATH": "/nowhere"}).codes == ["openmpi.no-launcher"]
    inside = {"PATH": "/nowhere", "OMPI_COMM_WORLD_SIZE": "2"}
    assert judge(files, inside).codes == []
    (finding,) = judge({**files, **OTHER}, {"PATH": "/opt/mpich/bin:/usr/bin"}).findings
    assert (finding.code, finding.severity) == ("openmpi.other-mpi", Severity.WARNING)
    assert "mpiexec.hydra" in finding.message


def test_two_installations() -> None:
    other = mpi("5.0.3", "40.40.3", "/opt/ompi", "lib")
    files = {**whole(), **mpi(), **other}
    (finding,) = judge(files, {"PATH": "/opt/ompi/bin"}).findings
    assert (finding.code, finding.severity) == ("openmpi.several", Severity.WARNING)
    both = {"PATH": "/opt/ompi/bin", "LD_LIBRARY_PATH": "/opt/ompi/lib"}
    assert judge(files, both).codes == []


def test_root_must_say_so() -> None:
    files = {**whole(), **mpi()}
    (finding,) = judge(files, euid=0).findings
    assert (finding.code, finding.severity) == ("openmpi.root", Severity.INFO)
    assert finding.fix is not None
    assert finding.fix.commands[0] == "export OMPI_ALLOW_RUN_AS_ROOT=1"
    said = {**PATH, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    assert judge(files, said, euid=0).codes == []


def test_skipped() -> None:
    assert judge({}).status is Status.SKIPPED
    assert judge(GPUS).status is Status.SKIPPED
    assert judge(torch()).status is Status.SKIPPED
    assert judge(whole(), {"MS_WORKER_NUM": "4"}).status is Status.SKIPPED
    without = {path: content for path, content in whole().items() if path not in GPUS}
    assert judge(without).status is Status.SKIPPED
    image = {f"/image{path}": content for path, content in whole().items()}
    assert judge(image, root="/image").status is Status.SKIPPED
    assert judge(image, root="/image", expect="gpu").codes == ["openmpi.missing"]
