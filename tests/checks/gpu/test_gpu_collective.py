"""gpu-collective: MindSpore can load its library for communication between GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.checks.gpu.test_nccl_version import ENV, GPUS, SITE, mindspore, nccl, torch
from tests.elves import library

from npudoctor import Severity, Status
from npudoctor.checks.gpu.gpu_collective import gpu_collective
from npudoctor.testing import Asked, Content, ask, fake_host

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


NAME = "gpu-collective.not-loadable"


def test_quiet_when_all_is_found() -> None:
    asked = judge({**whole(), **MPI})
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert list(asked.facts.values()) == [[], []]


@pytest.mark.parametrize(
    ("variables", "severity"), [({"WORLD_SIZE": "2"}, Severity.ERROR), ({}, Severity.WARNING)]
)
def test_without_mpi(variables: dict[str, str], severity: Severity) -> None:
    (finding,) = judge(whole(), variables).findings
    assert (finding.code, finding.severity) == (NAME, severity)
    assert "libgpu_collective.so: the loader does not find libmpi.so.40" in finding.message
    assert finding.echo_of == ("openmpi.missing",)


def test_without_both() -> None:
    (finding,) = judge(mindspore("1.6.2")).findings
    assert "libmpi.so.40, libnccl.so.2" in finding.message
    assert finding.echo_of == ("nccl-version.missing", "openmpi.missing")


def test_something_else_is_no_echo() -> None:
    files = {**whole(), **MPI}
    path = f"{NVIDIA.rpartition('/')[0]}/libgpu_collective.so"
    files[path] = library("libmpi.so.40", "libother.so.1", "libnccl.so.2", rpath="$ORIGIN")
    (finding,) = judge(files).findings
    assert (finding.echo_of, "libother.so.1" in finding.message) == ((), True)


def test_a_file_that_is_no_library() -> None:
    (finding,) = judge({**whole(), "/usr/lib64/libmpi.so.40": "GROUP ( x )\n"}).findings
    assert "is not an ELF file" in finding.evidence[0]


def test_mindspores_own_way_of_meeting_needs_no_mpi() -> None:
    assert judge(whole(), {"MS_WORKER_NUM": "8", "MS_ROLE": "MS_WORKER"}).codes == []
    assert judge(mindspore(bundled=nccl("2.7.6")), {"MS_WORKER_NUM": "8"}).codes == [NAME]


def test_mpi_by_the_variable() -> None:
    files = {**whole(), "/opt/ompi/lib/libmpi.so.40": library(soname="libmpi.so.40")}
    assert judge(files, {"LD_LIBRARY_PATH": "/opt/ompi/lib"}).codes == []


def test_skipped() -> None:
    assert judge({}).status is Status.SKIPPED
    assert judge(GPUS).status is Status.SKIPPED
    assert judge(torch()).status is Status.SKIPPED
    without = {path: content for path, content in whole().items() if path not in GPUS}
    assert judge(without).status is Status.SKIPPED
    assert judge(without, expect="gpu").codes == [NAME]
    image = {f"/image{path}": content for path, content in whole().items()}
    assert judge(image, root="/image").status is Status.SKIPPED
    assert judge(image, root="/image", expect="gpu").codes == [NAME]
