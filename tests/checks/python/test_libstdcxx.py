"""libstdcxx: the loader's libc and libstdc++ have the versions that extension modules want."""

from __future__ import annotations

import sys

import pytest
from tests.elves import library
from tests.scenes.libstdcxx import CANN, CONDA, MODULE, NEW, OLD, STDCXX, gcc, judge, machine, openmp, stdcxx

from npudoctor import Severity, Status
from npudoctor.checks.python.libstdcxx import libstdcxx
from npudoctor.host import Host, Options
from npudoctor.testing import Content, ask, link, unreadable


def test_quiet_when_new_enough() -> None:
    asked = judge(machine())
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts[STDCXX] == f"/lib/x86_64-linux-gnu/{STDCXX}"


def test_glibc_too_old() -> None:
    (finding,) = judge(machine("GLIBC_2.23")).findings
    assert (finding.code, finding.severity) == ("libstdcxx.glibc-too-old", Severity.ERROR)
    assert finding.evidence == (f"{MODULE} wants GLIBC_2.27",)
    assert finding.fix is None


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
