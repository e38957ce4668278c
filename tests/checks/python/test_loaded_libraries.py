"""loaded-libraries: what the loader takes for a framework is whole, and has what the framework calls."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.elves import library

from npudoctor import Severity, Status
from npudoctor.checks.python.loaded_libraries import loaded_libraries
from npudoctor.host import Host, Options
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, folder, link, package_files, unreadable

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


LED = {"LD_LIBRARY_PATH": "/other"}


def test_quiet_when_well() -> None:
    for variables in ({}, LED, {"LD_LIBRARY_PATH": "/nowhere:"}, {"LD_PRELOAD": "/nowhere.so"}):
        asked = judge(machine(), variables)
        assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize("content", [LFS, b"", b"\x7fELF\x02", cut(), folder()])
def test_a_file_on_which_the_loader_stops(content: Content) -> None:
    (finding,) = judge({**machine(), "/other/libgomp.so.1": content}, LED).findings
    assert (finding.code, finding.severity) == ("loaded-libraries.not-loadable", Severity.ERROR)
    assert "/other/libgomp.so.1" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("unset LD_LIBRARY_PATH",)
    assert finding.fix.undo == ("export LD_LIBRARY_PATH=/other",)


def test_a_library_for_another_machine_is_passed_over() -> None:
    arm = library("libc.so.6", soname="libgomp.so.1", machine="aarch64")
    assert judge({**machine(), "/other/libgomp.so.1": arm}, LED).codes == []


def test_what_a_variable_leads_to_lacks_a_function() -> None:
    (finding,) = judge({**machine(), "/other/libc10.so": c10("c10_old")}, LED).findings
    assert (finding.code, finding.severity) == ("loaded-libraries.lacks-symbols", Severity.ERROR)
    assert "c10_new" in finding.message
    assert f"{MODULE} needs c10_new" in finding.evidence
    assert any(f"{OWN}/libc10.so" in line for line in finding.evidence)


def test_rpath_is_stronger_than_the_variable() -> None:
    assert judge({**machine(runpath=False), "/other/libc10.so": c10("c10_old")}, LED).codes == []


def test_preloaded_it_is_stronger_than_rpath() -> None:
    files = {**machine(runpath=False), "/other/libc10.so": c10("c10_old")}
    (finding,) = judge(files, {"LD_PRELOAD": "/other/libc10.so:/nowhere.so"}).findings
    assert finding.code == "loaded-libraries.lacks-symbols"
    assert finding.fix is not None
    assert finding.fix.commands == ("export LD_PRELOAD=/nowhere.so",)


def test_a_foreign_one_that_asks_for_what_is_nowhere() -> None:
    foreign = c10("c10_new", "c10_old", imports=("PyOfAnotherPython",))
    (finding,) = judge({**machine(), "/other/libc10.so": foreign}, LED).findings
    assert finding.code == "loaded-libraries.lacks-symbols"
    assert "PyOfAnotherPython" in finding.message


def test_a_version_that_it_does_not_offer() -> None:
    """VERSION of libiomp5, say; of one that offers none the loader only warns."""
    wants = {"libgomp.so.1": ["GOMP_4.0"]}
    module = library("libgomp.so.1", wants=wants, runpath="$ORIGIN/lib")
    own = library(soname="libgomp.so.1", defines=["GOMP_4.0"])
    files = {**machine(), MODULE: module, f"{LIB}/libgomp.so.1": own}
    old = library(soname="libgomp.so.1", defines=["GOMP_1.0"])
    (finding,) = judge({**files, "/other/libgomp.so.1": old}, LED).findings
    assert finding.code == "loaded-libraries.lacks-symbols"
    assert "GOMP_4.0" in finding.message
    for content in (own, library(soname="libgomp.so.1")):
        assert judge({**files, "/other/libgomp.so.1": content}, LED).codes == []


def test_a_foreign_one_that_has_all() -> None:
    foreign = c10("c10_new", "c10_old", "and_more")
    (finding,) = judge({**machine(), "/other/libc10.so": foreign}, LED).findings
    assert (finding.code, finding.severity) == ("loaded-libraries.foreign-copy", Severity.WARNING)


def test_a_copy_of_the_same_build_and_a_link_are_nothing() -> None:
    same = machine()[f"{OWN}/libc10.so"]
    for content in (same, link(f"{OWN}/libc10.so")):
        assert judge({**machine(), "/other/libc10.so": content}, LED).codes == []


def test_another_libgomp_that_has_all_is_nothing() -> None:
    gomp = library("libc.so.6", soname="libgomp.so.1", exports=("GOMP_parallel", "GOMP_more"))
    assert judge({**machine(), "/other/libgomp.so.1": gomp}, LED).codes == []


def test_what_tells_no_symbols_is_not_judged() -> None:
    """As with its section headers stripped."""
    content = bytearray(library(soname="libc10.so"))
    content[40:48], content[60:62] = bytes(8), bytes(2)
    assert judge({**machine(), "/other/libc10.so": bytes(content)}, LED).codes == [
        "loaded-libraries.foreign-copy"
    ]


@pytest.mark.parametrize("variables", [LED, {"LD_PRELOAD": "/other/libc10.so"}])
def test_a_stub_that_has_nothing(variables: dict[str, str]) -> None:
    (finding,) = judge({**machine(), "/other/libc10.so": library(soname="libc10.so")}, variables).findings
    assert finding.code == "loaded-libraries.lacks-symbols"
    assert "/other/libc10.so" in finding.message and "c10_new" in finding.message


def test_a_stub_of_what_has_versions() -> None:
    """Of one without any the loader takes what it has by name: nothing, here."""
    wants = {"libstdc++.so.6": ["GLIBCXX_3.4"]}
    module = library("libstdc++.so.6", wants=wants, imports=("new_",), runpath="$ORIGIN/lib")
    own = library(soname="libstdc++.so.6", defines=["GLIBCXX_3.4"], exports=("new_",))
    files = {**machine(), MODULE: module, f"{OWN}/libstdc++.so.6": own}
    assert judge(files, {}).codes == []
    stub = library(soname="libstdc++.so.6")
    for more, variables in (({"/other/libstdc++.so.6": stub}, LED), ({f"{OWN}/libstdc++.so.6": stub}, {})):
        (finding,) = judge({**files, **more}, variables).findings
        assert finding.code == "loaded-libraries.lacks-symbols" and "new_" in finding.message
    named = library(soname="libstdc++.so.6", exports=("new_",))
    assert judge({**files, f"{OWN}/libstdc++.so.6": named}, {}).codes == [], "all is there by its name"


@pytest.mark.parametrize(("listed", "said"), [(1, True), (0, False)])
def test_a_stub_in_the_place_of_a_frameworks_own(listed: int, said: bool) -> None:
    """`listed`: by how many bytes the list of the files has another size."""
    stub = library(soname="libc10.so")
    files = {**machine(), f"{OWN}/libc10.so": stub, **package_files("torch", "2.9.0")}
    path = f"{OWN}/libc10.so"[len(SITE) + 1 :]
    files[f"{SITE}/torch-2.9.0.dist-info/RECORD"] = f"{path},sha256=x,{len(stub) + listed}\n"
    asked = judge(files, {})
    assert asked.codes == (["loaded-libraries.lacks-symbols"] if said else [])


def test_a_version_that_a_frameworks_own_lacks() -> None:
    module = library("libgomp.so.1", wants={"libgomp.so.1": ["GOMP_4.0"]}, runpath="$ORIGIN/lib")
    own = library(soname="libgomp.so.1", defines=["GOMP_1.0"])
    (finding,) = judge({**machine(), MODULE: module, f"{OWN}/libgomp.so.1": own}, {}).findings
    assert finding.code == "loaded-libraries.lacks-symbols" and "GOMP_4.0" in finding.message


@pytest.mark.parametrize("there", [True, False])
def test_a_library_of_a_back_end_of_torch(there: bool) -> None:
    info = f"{SITE}/mine-1.0.dist-info"
    files = {**machine(), **package_files("torch", "2.9.0"), **package_files("mine", "1.0")}
    files[f"{info}/entry_points.txt"] = "[torch.backends]\nmine = mine:_autoload\n"
    files[f"{SITE}/mine/__init__.py"] = "from . import _C\ndef _autoload(): ...\n"
    files[f"{SITE}/mine/_C.so"] = library("libmine.so.1", runpath="$ORIGIN")
    if there:
        files[f"{SITE}/mine/libmine.so.1"] = library(soname="libmine.so.1")
    asked = judge(files, {})
    assert asked.codes == ([] if there else ["loaded-libraries.not-found"])
    assert judge(files, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}).codes == []


def test_an_entry_that_others_need_stays() -> None:
    files = {
        **machine(),
        "/other/libc10.so": c10("c10_old"),
        "/other/libgomp.so.1": machine()[f"{LIB}/libgomp.so.1"],
    }
    del files[f"{LIB}/libgomp.so.1"]
    (finding,) = judge(files, LED).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={OWN}:/other",)
    assert judge(files, {"LD_LIBRARY_PATH": f"{OWN}:/other"}).codes == []


def test_a_library_of_the_system_that_is_missing() -> None:
    files = machine()
    del files[f"{LIB}/libgomp.so.1"]
    (finding,) = judge(files).findings
    assert (finding.code, finding.severity) == ("loaded-libraries.not-found", Severity.ERROR)
    assert finding.evidence == (f"libgomp.so.1: needed by {MODULE}",)
    cann: dict[str, Content] = {"/usr/local/Ascend/cann/compiler/version.info": "Version=8.5.0\n"}
    assert judge({**files, **cann}).codes == []  # library-path says it


def test_a_library_of_a_package_comes_again_with_it() -> None:
    """One for another machine lies there: the loader passes it over and says that it does not find it."""
    path = f"{OWN}/libdnnl.so.3"
    files = {
        **machine(),
        **package_files("torch", "2.9.0"),
        MODULE: library("libdnnl.so.3", "libc10.so", runpath="$ORIGIN/lib"),
        path: library(soname="libdnnl.so.3", machine="aarch64"),
        f"{SITE}/torch-2.9.0.dist-info/RECORD": f"{path[len(SITE) + 1 :]},sha256=x,9\n",
    }
    (finding,) = judge(files, {}).findings
    assert finding.code == "loaded-libraries.not-found" and "libdnnl.so.3" in finding.message
    assert finding.fix is not None
    assert [line for line in finding.fix.commands if line.endswith("--no-deps torch==2.9.0")]
    del files[f"{SITE}/torch-2.9.0.dist-info/RECORD"]  # then nobody knows whose it is
    (finding,) = judge(files, {}).findings
    assert finding.fix is not None and finding.fix.commands == ()


def test_what_is_cudas_is_for_others_to_say() -> None:
    files = {**machine(), MODULE: library("libc10.so", "libcudart.so.12", runpath="$ORIGIN/lib")}
    assert judge(files).codes == []


def test_what_ctypes_needs() -> None:
    dynload = "/usr/lib/python3.11/lib-dynload"
    ctypes = {
        f"{dynload}/_ctypes.cpython-311-x86_64-linux-gnu.so": library("libffi.so.8"),
        f"{LIB}/libffi.so.8": library(soname="libffi.so.8"),
    }
    path = (dynload, SITE)
    assert judge({**machine(), **ctypes}, LED, search_path=path).codes == []
    (finding,) = judge({**machine(), **ctypes, "/other/libffi.so.8": "x"}, LED, search_path=path).findings
    assert "ctypes" in finding.message


def test_an_image_has_no_variables() -> None:
    files = {f"/image{path}": content for path, content in machine().items()}
    files["/image/other/libgomp.so.1"] = LFS
    assert judge(files, LED, root="/image").codes == []


def test_skipped_and_cannot_tell() -> None:
    assert judge({}).status is Status.SKIPPED
    assert judge({**machine(), MODULE: unreadable(5)}).status is Status.UNKNOWN
    assert judge({**machine(), f"{OWN}/libc10.so": unreadable(5)}).status is Status.UNKNOWN


def test_a_real_interpreter_and_what_it_loads() -> None:
    asked = ask(loaded_libraries, Host(Options(python=sys.executable)))
    assert asked.status in (Status.OK, Status.SKIPPED)
