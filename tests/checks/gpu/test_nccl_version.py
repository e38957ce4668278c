"""nccl-version: each framework for GPUs loads an NCCL that is new enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.elves import library

from npudoctor import Severity, Status
from npudoctor.checks.gpu.nccl_version import nccl_version
from npudoctor.facts.gpu.nccl import NcclBuild, parse_build, read_constant
from npudoctor.testing import Asked, Content, ask, device, fake_host, link, package_files, unreadable

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


OLD = nccl("2.18.1")
BARE = library(soname=NAME, exports=("ncclGetVersion",))  # its file's name says which
ELSEWHERE = {f"/opt/nccl/{NAME}": OLD}


@pytest.mark.parametrize(
    ("content", "build"),
    [
        (b"\0NCCL version 2.7.6+cuda11.1\0", NcclBuild("2.7.6", "11.1")),
        (b"NCCL version %s,\0NCCL version 2.32.3+cuda12.9\nmore\0", NcclBuild("2.32.3", "12.9")),
        (b"NCCL version 2.32.3\0", NcclBuild("2.32.3")),
        (b"NCCL version that is\0NCCL version 2.x\0NCCL version ", None),
        (b"NCCL version 1.2.3.4\0", None),
        (b"", None),
    ],
)
def test_the_words_of_a_build(content: bytes, build: object) -> None:
    assert parse_build(content) == build


def test_constants_of_a_module() -> None:
    text = "x = 1\ncuda: Optional[str] = '12.8'\ncuda_version    = \"11.8\" # built\n"
    assert (read_constant(text, "cuda"), read_constant(text, "cuda_version"), read_constant(text, "hip")) == (
        "12.8",
        "11.8",
        None,
    )


@pytest.mark.parametrize(
    ("files", "framework", "library", "version"),
    [
        (torch(nccl()), "torch", OWN, "2.27.5"),
        (mindspore(bundled=nccl("2.7.6", "11.1", "ncclAllReduce")), "MindSpore", "libnccl.so.2", "2.7.6"),
        ({**paddle(), **torch(nccl())}, "Paddle", OWN, "2.27.5"),
    ],
)
def test_quiet_when_well(files: Mapping[str, Content], framework: str, library: str, version: str) -> None:
    asked = judge(files)
    assert (asked.status, asked.codes) == (Status.OK, [])
    told: Any = asked.facts[framework]
    assert (told["nccl"], told["library"].endswith(library)) == (version, True)


def test_a_torch_without_the_library_is_an_error() -> None:
    (finding,) = judge(torch()).findings
    assert (finding.code, finding.severity) == ("nccl-version.missing", Severity.ERROR)
    assert finding.fix is not None
    assert finding.fix.commands[0].endswith("-m pip install nvidia-nccl-cu12==2.27.5")


@pytest.mark.parametrize(
    ("variables", "gpus", "severity"),
    [
        ({"WORLD_SIZE": "8"}, 2, Severity.ERROR),
        ({"OMPI_COMM_WORLD_SIZE": "8"}, 1, Severity.ERROR),
        ({}, 2, Severity.WARNING),
        ({"WORLD_SIZE": "1"}, 1, Severity.INFO),
    ],
)
def test_how_bad_it_is_for_mindspore(variables: dict[str, str], gpus: int, severity: Severity) -> None:
    files = mindspore("1.6.2")
    if gpus == 1:
        del files["/dev/nvidia1"]
    (finding,) = judge(files, variables).findings
    assert (finding.code, finding.severity) == ("nccl-version.missing", severity)
    system: dict[str, Content] = {
        "/usr/lib64/libnccl.so.2": link("libnccl.so.2.7.3"),
        "/usr/lib64/libnccl.so.2.7.3": BARE,
    }
    (finding,) = judge({**files, **system}, variables).findings
    assert (finding.code, finding.severity) == ("nccl-version.missing-symbols", severity)
    system["/usr/lib64/libnccl.so.2.7.3"] = nccl("2.7.3", "11.0")
    (finding,) = judge({**files, **system}, variables).findings
    assert (finding.code, finding.severity) == ("nccl-version.too-old", severity)
    assert "MindSpore 1.6.2 needs NCCL 2.7.6, but would load 2.7.3" in finding.message


def test_mindspore_1_0_takes_an_older_one() -> None:
    assert judge(mindspore("1.0.1", nccl("2.4.8", "10.1"))).codes == []


def test_an_older_copy_hides_torchs_own() -> None:
    (finding,) = judge({**torch(nccl()), **ELSEWHERE}, OTHER).findings
    assert (finding.code, finding.severity) == ("nccl-version.too-old", Severity.WARNING)
    assert finding.fix is not None
    folder = OWN.rpartition("/")[0]
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={folder}:/opt/nccl",)
    assert finding.fix.undo == ("export LD_LIBRARY_PATH=/opt/nccl",)


def test_torch_with_an_rpath_is_not_moved_by_the_variable() -> None:
    files = {**torch(nccl()), **ELSEWHERE}
    files[f"{SITE}/torch/lib/libtorch_cuda.so"] = library(NAME, rpath="$ORIGIN/../../nvidia/nccl/lib")
    assert judge(files, OTHER).codes == []


def test_functions_that_are_not_there() -> None:
    lacking = nccl("2.18.1", "12.1", "ncclAllReduce")
    (finding,) = judge({**torch(nccl()), f"/opt/nccl/{NAME}": lacking}, OTHER).findings
    assert (finding.code, finding.severity) == ("nccl-version.missing-symbols", Severity.ERROR)
    assert f"torch calls {CALLED[1]}" in finding.message


def test_a_newer_copy_is_only_said() -> None:
    (finding,) = judge({**torch(nccl()), f"/opt/nccl/{NAME}": nccl("2.30.1")}, OTHER).findings
    assert (finding.code, finding.severity) == ("nccl-version.other-copy", Severity.INFO)
    same = {**torch(nccl()), f"/opt/nccl/{NAME}": nccl()}
    assert judge(same, OTHER).codes == []


def test_two_distributions_in_one_place() -> None:
    (finding,) = judge({**torch(nccl("2.28.3", "13.0")), **CU13}).findings
    assert (finding.code, finding.severity) == ("nccl-version.overwritten", Severity.WARNING)
    assert judge({**torch(nccl()), **CU13}).codes == []  # its own was put there last


def test_found_where_only_torchs_import_looks() -> None:
    """In another folder of the search path than torch."""
    user = "/home/user/site-packages"
    files = {**torch(), f"{user}/nvidia/nccl/lib/{NAME}": nccl()}
    from npudoctor.checks.gpu.nccl_version import nccl_version
    from npudoctor.testing import ask, fake_host

    host = fake_host(files, python="/opt/env/bin/python3", search_path=(SITE, user))
    assert ask(nccl_version, host).codes == []


def test_paddle_looks_by_two_names() -> None:
    files = {**paddle(named=False), "/opt/nccl/libnccl.so": OLD}
    assert judge(files, OTHER).codes == ["nccl-version.too-old"]
    flag = {"FLAGS_nccl_dir": "/opt/nccl"}
    assert judge(files, flag).codes == ["nccl-version.too-old"]
    (finding,) = judge(paddle(), flag).findings
    assert (finding.code, finding.severity) == ("nccl-version.missing", Severity.WARNING)
    assert judge(paddle(cuda="False")).status is Status.SKIPPED


def test_nccl_inside_of_torch() -> None:
    files = torch()
    files[f"{SITE}/torch/lib/libtorch_cuda.so"] = library()
    asked = judge(files)
    told: Any = asked.facts["torch"]
    assert (asked.status, asked.codes, told["built_in"]) == (Status.OK, [], True)


def test_cannot_tell() -> None:
    asked = judge(mindspore(bundled=nccl("", "", "ncclAllReduce")))
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, True, [])
    files = {**torch(nccl()), OWN: unreadable()}
    assert judge(files).status is Status.UNKNOWN
    files = {**torch(nccl()), f"{SITE}/torch/lib/libtorch_cuda.so": unreadable()}
    assert judge(files).status is Status.UNKNOWN


def test_skipped() -> None:
    assert judge({}).status is Status.SKIPPED
    assert judge({**python(), **GPUS}).status is Status.SKIPPED
    without = {path: content for path, content in torch().items() if path not in GPUS}
    assert judge(without).status is Status.SKIPPED
    assert judge(without, expect="gpu").codes == ["nccl-version.missing"]
    assert judge(torch(), expect="npu").status is Status.SKIPPED
    cpu = {path: content for path, content in torch(nccl()).items() if "libtorch_cuda" not in path}
    assert judge({**cpu, **package_files("numpy", "1.26.4", site=SITE)}).status is Status.SKIPPED


def test_an_image_is_judged_where_gpus_are_expected() -> None:
    files = {f"/image{path}": content for path, content in torch().items()}
    assert judge(files, root="/image").status is Status.SKIPPED
    assert judge(files, root="/image", expect="gpu").codes == ["nccl-version.missing"]
