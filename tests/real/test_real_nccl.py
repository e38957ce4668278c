"""Real libraries of NCCL, read without a GPU and without loading them (`pytest -m real_wheels`)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.elves import library

from npudoctor.facts.gpu.nccl import NcclBuild, build_of
from npudoctor.host import Host

from . import nccl_wheels
from .conftest import lacking
from .mindspore_env import Unavailable

pytestmark = [
    pytest.mark.real_wheels,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheels are for x86-64"),
]
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
TAG = f"cpython-{VERSION.replace('.', '')}-x86_64-linux-gnu"


def wheel(requirement: str, python: str = "") -> Path:
    """The kept parts of a wheel; skips where it cannot be had."""
    try:
        return nccl_wheels.provide(requirement, python)
    except Unavailable as error:
        lacking(str(error))


def code_of(path: Path) -> int:
    """What the library itself answers: it is loaded here, by a child, to compare."""
    ask = "import ctypes,sys;n=ctypes.c_int();l=ctypes.CDLL(sys.argv[1]);l.ncclGetVersion(ctypes.byref(n));"
    ask += "print(n.value)"
    done = subprocess.run([sys.executable, "-c", ask, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def judge(home: Path, site: Path, **variables: str) -> dict[str, Any]:
    """The rows for an interpreter that has this site-packages."""
    for part in ("bin", f"lib/python{VERSION}"):
        (home / part).mkdir(parents=True)
    (home / f"lib/python{VERSION}/site-packages").symlink_to(site)
    (home / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (home / "bin/python3").symlink_to(Path(sys.executable).resolve())
    checks = ("nccl-version", "gpu-collective", "openmpi")
    command = [sys.executable, "-m", "npudoctor", "check", *checks, "--expect", "gpu"]
    command += ["--python", str(home / "bin/python3"), "--format", "json"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "NPUDOCTOR_CHECKS_DIR": "", **variables}
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    rows: dict[str, Any] = {row["check"]: row for row in json.loads(done.stdout)["results"]}
    return rows


def test_the_wheel_of_nvidia() -> None:
    path = wheel(nccl_wheels.NCCL) / "nvidia/nccl/lib/libnccl.so.2"
    started = time.process_time()
    assert build_of(Host(), str(path)) == NcclBuild("2.27.5", "12.9")
    assert time.process_time() - started < 1, "450 MB are not read as a whole"
    assert code_of(path) == 22705


def test_the_one_inside_of_mindspore() -> None:
    path = wheel(nccl_wheels.MINDSPORE, "3.9") / "mindspore/lib/libnccl.so.2"
    assert build_of(Host(), str(path)) == NcclBuild("2.7.6", "11.1")
    assert code_of(path) == 2706


def test_mindspore_finds_its_own(tmp_path: Path) -> None:
    site = wheel(nccl_wheels.MINDSPORE, "3.9")
    mine = tmp_path / "site"
    mine.mkdir()
    for part in site.iterdir():
        if part.name != "mindspore":
            (mine / part.name).symlink_to(part)
    (mine / "mindspore").mkdir()
    (mine / "mindspore/lib").symlink_to(site / "mindspore/lib")
    (module,) = site.glob("mindspore/_c_expression.*")
    # This Python's name for it: that it was built for 3.9 is another check's finding.
    (mine / f"mindspore/_c_expression.{TAG}.so").symlink_to(module)
    rows = judge(tmp_path / "env", mine)
    row, needs = rows["nccl-version"], rows["gpu-collective"]["facts"]
    told = row["facts"]["MindSpore"]
    assert (row["findings"], told["version"], told["nccl"], told["cuda"]) == ([], "1.10.0", "2.7.6", "11.1")
    assert [path.rpartition("/")[2] for path in needs] == list(nccl_wheels.KEPT[1:])
    assert not any("libnccl.so.2" in missing for missing in needs.values())
    # Open MPI is no part of the wheel; whether this machine has one is its own affair.
    lacking_mpi = any("libmpi.so.40" in missing for missing in needs.values())
    codes = [finding["code"] for finding in rows["openmpi"]["findings"]]
    assert ("openmpi.missing" in codes) == lacking_mpi


def test_torch_beside_the_real_library(tmp_path: Path) -> None:
    """Its own library is a stand-in, with the needs and the search path of the real one."""
    site = wheel(nccl_wheels.NCCL)
    mine = tmp_path / "site"
    (mine / "torch/lib").mkdir(parents=True)
    (mine / "nvidia").symlink_to(site / "nvidia")
    called = ["ncclAllReduce", "ncclCommRegister", "ncclCommSplit"]
    (mine / f"torch/_C.{TAG}.so").write_bytes(library("libtorch_cuda.so", rpath="$ORIGIN/lib"))
    cuda = library("libnccl.so.2", runpath=f"{mine}/nvidia/nccl/lib", imports=called)
    (mine / "torch/lib/libtorch_cuda.so").write_bytes(cuda)
    (mine / "torch-2.9.0.dist-info").mkdir()
    metadata = "Name: torch\nVersion: 2.9.0\nRequires-Dist: nvidia-nccl-cu12==2.27.5\n"
    (mine / "torch-2.9.0.dist-info/METADATA").write_text(metadata)
    row = judge(tmp_path / "env", mine)["nccl-version"]
    assert (row["status"], row["findings"], row["facts"]["torch"]["nccl"]) == ("ok", [], "2.27.5")
    older = wheel(nccl_wheels.MINDSPORE, "3.9") / "mindspore/lib"
    row = judge(tmp_path / "other", mine, LD_LIBRARY_PATH=str(older))["nccl-version"]
    (finding,) = row["findings"]
    assert finding["code"] == "nccl-version.missing-symbols"
    assert "ncclCommRegister, ncclCommSplit" in finding["message"]
