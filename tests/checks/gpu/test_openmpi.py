"""openmpi: there is an Open MPI with which MindSpore can be started."""

from __future__ import annotations

import pytest
from tests.scenes.gpu_collective import whole
from tests.scenes.nccl_version import GPUS, torch
from tests.scenes.openmpi import OTHER, PATH, judge, mpi

from npudoctor import Severity, Status


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
