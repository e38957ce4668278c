"""libstdcxx: the loader's libc and libstdc++ have the versions that extension modules want."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.elves import library

from npudoctor import Severity, Status
from npudoctor.checks.python.libstdcxx import libstdcxx
from npudoctor.host import Host, Options
from npudoctor.testing import SITE, Asked, Content, Node, ask, fake_host, folder, link, unreadable

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


def test_quiet_when_new_enough() -> None:
    asked = judge(machine())
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts[STDCXX] == f"/lib/x86_64-linux-gnu/{STDCXX}"


def test_glibc_too_old() -> None:
    (finding,) = judge(machine("GLIBC_2.23")).findings
    assert (finding.code, finding.severity) == ("libstdcxx.glibc-too-old", Severity.ERROR)
    assert finding.evidence == (f"{MODULE} needs GLIBC_2.27",)
    assert finding.fix is not None and finding.fix.commands == ()


def test_a_second_libgomp_that_may_come_late() -> None:
    asked = judge(openmp("2.31"), **CONDA)
    assert (asked.status, asked.codes) == (Status.OK, ["libstdcxx.static-tls"])
    (finding,) = asked.findings
    assert finding.fix is not None
    assert finding.fix.commands == ("export LD_PRELOAD=/opt/conda/lib/libgomp.so.1",)
    both = judge(openmp("2.31"), {"LD_PRELOAD": "/opt/other.so"}, **CONDA).findings[0].fix
    assert both is not None
    assert both.commands == ("export LD_PRELOAD=/opt/conda/lib/libgomp.so.1:/opt/other.so",)


def test_no_word_of_libgomp_where_it_does_no_harm() -> None:
    preloaded = {"LD_PRELOAD": "/opt/conda/lib/libgomp.so.1"}
    assert judge(openmp("2.31"), preloaded, **CONDA).codes == []
    assert judge(openmp("2.34"), **CONDA).codes == []
    assert judge(openmp("2.31", own="/lib/aarch64-linux-gnu/libgomp.so.1"), **CONDA).codes == []
    image = {f"/image{path}": content for path, content in openmp("2.31").items()}
    assert judge(image, root="/image", **CONDA).codes == []


def test_an_image_is_judged_too() -> None:
    files = {f"/image{path}": content for path, content in machine("GLIBC_2.23").items()}
    assert judge(files, root="/image").codes == ["libstdcxx.glibc-too-old"]


def test_a_library_without_versions_is_let_pass() -> None:
    files = {**machine(), f"/lib/x86_64-linux-gnu/{STDCXX}": library(soname=STDCXX)}
    assert judge(files).codes == []


def fix(files: dict, variables: dict[str, str], **more: str) -> tuple[str, ...]:  # type: ignore[type-arg]
    (finding,) = judge(files, variables, **more).findings
    assert (finding.code, finding.severity) == ("libstdcxx.too-old", Severity.ERROR)
    return finding.fix.commands if finding.fix else ()


def test_an_old_one_in_front_of_the_systems() -> None:
    files = {**machine(), f"/old/{STDCXX}": stdcxx(OLD)}
    assert fix(files, {"LD_LIBRARY_PATH": "/old:/b"}) == ("export LD_LIBRARY_PATH=/b",)


def test_an_old_one_in_front_of_another() -> None:
    files = {**machine(cxx=OLD), f"/old/{STDCXX}": stdcxx(OLD), f"/new/{STDCXX}": stdcxx(NEW)}
    line = fix(files, {"LD_LIBRARY_PATH": "/old:/new"})
    assert line == ("export LD_LIBRARY_PATH=/new:/old",)
    assert judge(files, {"LD_LIBRARY_PATH": "/new:/old"}).codes == []


def test_condas_is_appended() -> None:
    conda = {"/opt/conda/bin/python3": library("libc.so.6"), f"/opt/conda/lib/{STDCXX}": stdcxx(NEW)}
    line = fix({**machine(cxx=OLD), **conda}, {"LD_LIBRARY_PATH": "/a"}, python="/opt/conda/bin/python3")
    assert line == ("export LD_LIBRARY_PATH=/a:/opt/conda/lib",)


def test_condas_own_python_finds_it_by_its_rpath() -> None:
    python = library("libc.so.6", rpath="$ORIGIN/../lib")
    conda = {"/opt/conda/bin/python3": python, f"/opt/conda/lib/{STDCXX}": stdcxx(NEW)}
    assert judge({**machine(cxx=OLD), **conda}, {}, python="/opt/conda/bin/python3").codes == []


def test_no_newer_one_at_hand() -> None:
    assert fix(machine(cxx=OLD), {}) == ()


@pytest.mark.parametrize(
    ("version", "codes"),
    [
        ("4.8.5", ["libstdcxx.compiler-too-old"]),
        ("7.3.0", []),
        ("12", []),
        ("6", ["libstdcxx.compiler-too-old"]),
    ],
)
def test_the_compiler(version: str, codes: list[str]) -> None:
    by_folder = {**gcc(), f"/usr/lib/gcc/x86_64-redhat-linux/{version}/cc1plus": ""}
    by_name = {
        **gcc(f"/usr/bin/x86_64-linux-gnu-g++-{version}"),
        "/usr/bin/g++": link(f"x86_64-linux-gnu-g++-{version}"),
    }
    for files in (by_folder, by_name):
        assert judge({**machine(), **CANN, **files}, {"PATH": "/usr/bin"}, expect="npu").codes == codes
        assert judge({**machine(), **CANN, **files}, {"PATH": "/usr/bin"}, expect="none").codes == []


def test_the_compiler_of_the_red_hat_family() -> None:
    """Its parts lie below libexec; on CentOS 7 the folder has two names."""
    name = "/usr/libexec/gcc/x86_64-redhat-linux"
    parts: dict[str, Content] = {f"{name}/4.8.2/cc1plus": "", f"{name}/4.8.5": link("4.8.2")}
    asked = judge({**machine(), **CANN, **gcc(), **parts}, expect="npu")
    assert asked.codes == ["libstdcxx.compiler-too-old"]
    assert "4.8.5" in asked.findings[0].message
    newer = {f"{name}/10.3.1/cc1plus": "", "/usr/lib/gcc/x86_64-redhat-linux/10.3.1/libgcc.a": ""}
    assert judge({**machine(), **CANN, **gcc(), **newer}, expect="npu").codes == []
    two: dict[str, Content] = {**parts, f"{name}/12/cc1plus": ""}
    assert judge({**machine(), **CANN, **gcc(), **two}, expect="npu").codes == []  # which one is not known


def test_no_compiler() -> None:
    for files in ({}, gcc(permissions=0o644)):
        asked = judge({**machine(), **CANN, **files}, {"PATH": "/usr/bin"}, expect="npu")
        assert asked.codes == ["libstdcxx.compiler-missing"]
        assert asked.status is Status.OK
    assert judge(machine(), expect="npu").codes == []
    assert judge({**machine(), **CANN, **gcc()}, expect="npu").codes == []  # of unknown version


def test_skipped_and_cannot_tell() -> None:
    assert judge({}).status is Status.SKIPPED
    assert judge({**machine(), MODULE: unreadable(5)}).status is Status.UNKNOWN


def test_a_real_interpreter_and_what_it_loads() -> None:
    """Whatever framework is installed beside these tests: nothing is wrong with it."""
    asked = ask(libstdcxx, Host(Options(python=sys.executable)))
    assert asked.status in (Status.OK, Status.SKIPPED)
