"""library-path: what the loader finds of CANN and of the driver, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.elves import cache, library

from npudoctor import Action, Severity, Status
from npudoctor.checks.cann.library_path import BASIC, library_path
from npudoctor.host import Options
from npudoctor.testing import SITE, Asked, Content, Node, ask, fake_host, folder, link, unreadable

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


SAMPLE = Path(__file__).with_name("env_910B4-1_8.3.RC2.txt")
HAL = "libascend_hal.so"


def without(word: str, files: dict[str, Content]) -> dict[str, Content]:
    return {path: content for path, content in files.items() if word not in path}


def test_quiet_when_all_is_found() -> None:
    asked = judge(HEALTHY, ALL)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["install"] == LATEST
    assert asked.facts["frameworks"] == ["torch_npu"]
    assert asked.facts["missing"] == []
    assert asked.facts["loaded"] == {
        "libascendcl.so": f"{LATEST}/lib64/libascendcl.so",
        "libhccl.so": f"{LATEST}/lib64/libhccl.so",
        "libge_runner.so": f"{LATEST}/lib64/libge_runner.so",
        HAL: f"{DRIVER}/driver/{HAL}",
    }


@pytest.mark.parametrize(
    "entries",
    [
        [*ALL, *ALL],
        ["/gone", *ALL],
        [f"{entry}/" for entry in ALL],
        [f"{TOOLKIT}/8.1.RC1/lib64", *DRIVERS],
        ["/opt/conda/lib", *ALL],
    ],
)
def test_entries_that_change_nothing(entries: list[str]) -> None:
    assert judge(HEALTHY, entries).codes == []


def test_the_drivers_folders_may_be_known_to_the_system() -> None:
    known = {name: f"{DRIVER}/{place}/{name}" for name, place in ((HAL, "driver"), ("libmmpa.so", "common"))}
    assert judge({**HEALTHY, "/etc/ld.so.cache": cache(known, "aarch64")}, SOURCED).codes == []


def test_other_frameworks_and_none() -> None:
    for files in (mindspore(), {}):
        assert judge({**without("/torch", HEALTHY), **files}, ALL).codes == []


def test_x86() -> None:
    files = {**system("x86_64"), **cann(machine="x86_64"), **driver("x86_64")}
    assert judge(files, ALL, machine="x86_64").codes == []
    arm = {**system("x86_64"), **cann(machine="aarch64"), **driver("x86_64")}
    assert judge(arm, ALL, machine="x86_64").codes == ["library-path.not-found"]


def test_nothing_sourced_is_an_echo_with_the_exact_line() -> None:
    asked = judge(HEALTHY, None)
    cann_finding, driver_finding = asked.findings
    assert (cann_finding.code, cann_finding.severity) == ("library-path.not-found", Severity.ERROR)
    assert cann_finding.echo_of == ("cann-env.not-sourced",)
    assert "libhccl.so" in cann_finding.message
    assert f"libhccl.so: needed by {torch_npu_library()}" in cann_finding.evidence
    assert driver_finding.code == "library-path.driver-not-found"
    assert driver_finding.echo_of == ()  # this script does not bring the driver's folders
    assert cann_finding.fix is not None
    (line,) = cann_finding.fix.commands
    assert line == f"export LD_LIBRARY_PATH={LATEST}/lib64:{DRIVER}/common:{DRIVER}/driver"
    assert cann_finding.fix.undo == ("unset LD_LIBRARY_PATH",)


def torch_npu_library() -> str:
    return "/usr/lib/python3.11/site-packages/torch_npu/lib/libtorch_npu.so"


def test_a_script_that_brings_the_driver_is_the_cause_of_both() -> None:
    script = {f"{TOOLKIT}/set_env.sh": "export LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64\n"}
    cann_finding, driver_finding = judge({**HEALTHY, **script}, None).findings
    assert cann_finding.echo_of == ("cann-env.not-sourced",)
    assert driver_finding.echo_of == ("library-path.not-found",)


def test_the_drivers_folders_are_missing() -> None:
    (finding,) = judge(HEALTHY, SOURCED).findings
    assert (finding.code, finding.severity) == ("library-path.driver-not-found", Severity.ERROR)
    assert finding.action is Action.CONFIG
    assert finding.fix is not None
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={':'.join(ALL)}",)
    assert finding.fix.undo == (f"export LD_LIBRARY_PATH={':'.join(SOURCED)}",)


def test_where_no_npu_is_wanted() -> None:
    for more, severity in (({"wanted": "none"}, Severity.INFO), ({"packages": {}}, Severity.WARNING)):
        (finding,) = judge(HEALTHY, SOURCED, **more).findings
        assert finding.severity is severity
    gone = without(HAL, HEALTHY)
    assert judge(gone, ALL, wanted="none").codes == []
    (finding,) = judge(gone, ALL).findings
    assert finding.code == "library-path.driver-not-found"
    assert finding.fix is not None and finding.fix.commands == ()


def test_a_part_of_the_driver_is_nowhere() -> None:
    """Only lib64/driver is mounted, lib64/common is not."""
    (finding,) = judge(without("libmmpa", HEALTHY), ALL).findings
    assert (finding.code, finding.echo_of) == ("library-path.driver-not-found", ())
    assert (
        finding.message.startswith("libmmpa.so of the driver is not on this machine")
        and "part" in finding.message
    )
    assert judge(without("libmmpa", HEALTHY), ALL, wanted="none").codes == []


def test_what_this_user_may_not_read_is_an_echo() -> None:
    path = f"{TOOLKIT}/8.1.RC1/aarch64-linux/lib64/libhccl.so"
    content = HEALTHY[path]
    assert isinstance(content, bytes)
    closed: dict[str, Content] = {**HEALTHY, path: Node(content, permissions=0o600)}
    (finding,) = judge(closed, ALL, euid=1000, user="anna").findings
    assert (finding.code, finding.echo_of) == ("library-path.not-found", ("cann-install.not-readable",))
    assert judge(closed, ALL).codes == []  # root


def test_what_is_nowhere() -> None:
    asked = judge({**HEALTHY, **torch_npu("libgone.so")}, ALL)
    (finding,) = asked.findings
    assert (finding.code, finding.echo_of) == ("library-path.not-found", ())
    assert finding.fix is not None and finding.fix.commands == ()
    assert "libgone.so" in finding.message
    assert asked.facts["missing"] == ["libgone.so"]


def test_broken() -> None:
    asked = judge({**HEALTHY, "/first/libhccl.so": "/* GNU ld script */"}, ["/first", *ALL])
    (finding,) = asked.findings
    assert finding.code == "library-path.broken"
    assert "/first/libhccl.so is not an ELF file" in finding.message


def test_a_folder_in_place_of_a_library() -> None:
    (finding,) = judge({**HEALTHY, "/first/libhccl.so": folder()}, ["/first", *ALL]).findings
    assert finding.code == "library-path.broken"
    assert "/first/libhccl.so is not a regular file" in finding.message


def stubs() -> dict[str, Content]:
    return {
        f"{TOOLKIT}/8.1.RC1/devlib/{HAL}": library(machine="aarch64"),
        f"{LATEST}/devlib": link("../8.1.RC1/devlib"),
    }


def test_stub_first() -> None:
    (finding,) = judge({**HEALTHY, **stubs()}, [f"{LATEST}/devlib", *ALL]).findings
    assert (finding.code, finding.severity) == ("library-path.stub-first", Severity.ERROR)
    assert f"{HAL}: {LATEST}/devlib/{HAL}" in finding.evidence
    assert finding.fix is not None
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={':'.join(ALL)}",)


def test_a_stub_behind_the_real_one_is_as_cann_leaves_it() -> None:
    assert judge({**HEALTHY, **stubs()}, [*ALL, f"{LATEST}/devlib"]).codes == []


def test_a_stub_where_there_is_no_driver() -> None:
    files, entries = {**without(HAL, HEALTHY), **stubs()}, [*ALL, f"{LATEST}/devlib"]
    assert judge(files, entries, wanted="none").codes == []
    (finding,) = judge(files, entries).findings
    assert finding.code == "library-path.stub-first"
    assert finding.fix is not None and finding.fix.commands == ()


@pytest.mark.parametrize(("product", "severity"), [("8.0.0", Severity.ERROR), ("8.1.RC1", Severity.WARNING)])
def test_libraries_of_another_cann(product: str, severity: Severity) -> None:
    old = f"/opt/old/{product}/lib64"
    (finding,) = judge({**HEALTHY, **cann(product, "/opt/old", latest=False)}, [old, *ALL]).findings
    assert (finding.code, finding.severity) == ("library-path.other-cann", severity)
    assert f"/opt/old/{product} ({product})" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={':'.join(ALL)}",)


def copied(folder_of_it: str, *names: str) -> dict[str, Content]:
    """Copies of CANN's libraries in a folder without version files."""
    return {
        f"{folder_of_it}/{name}": library("libascend_hal.so", soname=name, machine="aarch64")
        for name in names or ("libhccl.so", "libruntime.so")
    }


@pytest.mark.parametrize(
    "place", ["/opt/libs", "/opt/old/8.0.0/lib64", "/opt/conda/lib", f"{TOOLKIT}/7.0/lib64"]
)
def test_libraries_of_a_folder_that_is_no_part_of_cann(place: str) -> None:
    (finding,) = judge({**HEALTHY, **copied(place)}, [place, *ALL]).findings
    assert (finding.code, finding.severity) == ("library-path.outside-cann", Severity.WARNING)
    assert f"libhccl.so, libruntime.so is loaded from {place}" in finding.message
    assert finding.fix is not None
    line = ":".join((ALL[0], place, *ALL[1:]))
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={line}",)
    mended = finding.fix.commands[0].partition("=")[2].split(":")
    assert judge({**HEALTHY, **copied(place)}, mended).codes == []


def test_copies_that_do_no_harm() -> None:
    place = "/opt/libs"
    assert judge({**HEALTHY, **copied(place)}, [*ALL, place]).codes == []
    own = {f"{SITE}/torch_npu/lib/libhccl.so": library(soname="libhccl.so", machine="aarch64")}
    assert judge({**HEALTHY, **own}, ALL).codes == []  # what a wheel brings is the wheel's
    farm: dict[str, Content] = {f"{place}/libhccl.so": link(f"{LATEST}/lib64/libhccl.so")}
    assert judge({**HEALTHY, **farm}, [place, *ALL]).codes == []
    assert judge({**HEALTHY, **copied(place, "libmmpa.so")}, [place, *ALL]).codes == []  # the driver's


def test_a_copy_where_no_npu_is_expected_is_only_said() -> None:
    (finding,) = judge({**HEALTHY, **copied("/opt/libs")}, ["/opt/libs", *ALL], wanted="none").findings
    assert (finding.code, finding.severity) == ("library-path.outside-cann", Severity.INFO)


def test_nothing_comes_before_an_rpath() -> None:
    torch = f"{SITE}/torch_npu/lib/libtorch_npu.so"
    files = {**HEALTHY, **copied("/opt/libs", "libhccl.so")}
    files[torch] = library("libtorch.so", "libhccl.so", rpath="/opt/libs:$ORIGIN", machine="aarch64")
    (finding,) = judge(files, ALL).findings
    assert (finding.code, finding.fix) == ("library-path.outside-cann", None)
    assert finding.evidence == ("libhccl.so: /opt/libs/libhccl.so (RPATH)",)


def test_another_cann_behind_is_only_said() -> None:
    files = {**HEALTHY, **cann("8.0.0", "/opt/old", latest=False)}
    asked = judge(files, [*ALL, "/opt/old/8.0.0/lib64"])
    assert [finding.severity for finding in asked.findings] == [Severity.INFO]
    assert asked.status is Status.OK


@pytest.mark.parametrize(
    ("entries", "more", "severity"),
    [
        ([*ALL, ""], {}, Severity.INFO),
        ([*ALL, "."], {}, Severity.INFO),
        ([*ALL, ""], {"/job/libhccl.so": library(machine="aarch64")}, Severity.INFO),
        ([*ALL, ""], {"/job": folder(0o1777)}, Severity.WARNING),
        ([*ALL, ""], {"/job/libc.so.6": library(machine="aarch64")}, Severity.WARNING),
        (["", *ALL], {"/job/libhccl.so": library(machine="aarch64")}, Severity.WARNING),
    ],
)
def test_the_working_directory(entries: list[str], more: dict[str, Content], severity: Severity) -> None:
    (finding,) = judge({**HEALTHY, **more}, entries).findings
    assert (finding.code, finding.severity) == ("library-path.working-directory", severity)
    assert finding.fix is not None
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={':'.join(ALL)}",)


@pytest.mark.parametrize(
    ("entry", "said", "line", "title"),
    [
        ("lib", "the entry lib, which is relative to the working directory", [], "without lib"),
        ("own", "the entry own, which is relative", ["/job/own"], ""),
        ("~/lib", "has the entry ~/lib: no shell expanded ~", ["/home/ann/lib"], ""),
        ("~bob/lib", "has the entry ~bob/lib: no shell expanded ~", [], "without ~bob/lib"),
        (".", "has an empty entry", [], ""),
    ],
)
def test_each_entry_by_its_name(entry: str, said: str, line: list[str], title: str) -> None:
    """What the line leaves out is said; a ~ in quotes was meant to be the home."""
    files = {**HEALTHY, "/job/own": folder(), "/etc/passwd": "ann:x:0:0::/home/ann:/bin/sh\n"}
    files["/proc/7/status"] = "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n"
    files["/proc/7/cwd"] = link("/job")
    (finding,) = judge(files, [*ALL, entry], options=Options(env_of=7)).findings
    assert (finding.code, finding.severity) == ("library-path.working-directory", Severity.INFO)
    assert said in finding.message and finding.fix is not None
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH={':'.join([*ALL, *line])}",)
    assert finding.fix.title.removeprefix("set LD_LIBRARY_PATH").strip() == title


def test_a_library_below_the_working_directory() -> None:
    files = {**HEALTHY, "/job/lib/libhccl.so": library(soname="libhccl.so", machine="aarch64")}
    (finding,) = judge(files, ["lib", *ALL]).findings
    assert "libhccl.so is loaded from a folder below the working directory" in finding.message
    assert "the entry lib" in finding.message and finding.severity is Severity.WARNING
    both = judge(HEALTHY, ["lib", "~/lib", "", *ALL]).findings
    assert [finding.code for finding in both] == ["library-path.working-directory"] * 3
    (finding,) = judge({**HEALTHY, "/job/lib": folder(0o777)}, [*ALL, "lib"]).findings
    assert (finding.severity, "everyone can write" in finding.message) == (Severity.WARNING, True)


def test_a_real_environment_is_well() -> None:
    """CANN 8.3.RC2, sourced twice, ATB of both ABIs, a trailing colon."""
    pairs = (line.partition("=") for line in SAMPLE.read_text().splitlines())
    entries = {name: value for name, _equals, value in pairs}["LD_LIBRARY_PATH"].split(":")
    files = {
        **system(),
        **cann("8.3.RC2"),
        **driver(),
        **torch_npu(),
        "/proc/self/cwd": link("/job"),
        "/job": folder(),
    }
    assert [finding.severity for finding in judge(files, entries).findings] == [Severity.INFO]


@pytest.mark.parametrize("ours", ["/job", "/open"])
def test_the_working_directory_of_the_examined_process(ours: str) -> None:
    """It is where that process is that counts, not where we are."""
    files = {**HEALTHY, "/proc/self/cwd": link(ours), "/open": folder(0o777), "/proc/7/cwd": link("/open")}
    files["/proc/7/status"] = "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n"
    (finding,) = judge(files, [*ALL, ""], options=Options(env_of=7)).findings
    assert (finding.severity, "/open" in finding.message) == (Severity.WARNING, True)
    files["/proc/7/cwd"] = link("/theirs")
    files["/theirs/libhccl.so"] = library(soname="libhccl.so", machine="aarch64")
    (finding,) = judge(files, ["", *ALL], options=Options(env_of=7)).findings
    assert finding.evidence == ("libhccl.so: /theirs/libhccl.so",)


def test_cannot_tell_and_does_not_apply() -> None:
    assert judge(system(), []).status is Status.SKIPPED
    assert judge(HEALTHY, None, wanted="none").status is Status.SKIPPED
    assert judge(HEALTHY, ALL, root="/image").reason == "an image is not running"
    asked = judge({**HEALTHY, f"{DRIVER}/driver/{HAL}": unreadable(5)}, ALL)
    assert asked.status is Status.UNKNOWN
    no_python: dict[str, Content] = {"/usr/bin/python3": "#!/bin/sh\n"}
    assert judge({**HEALTHY, **no_python}, ALL).codes == []
    assert judge({**HEALTHY, **no_python}, ALL, machine="riscv64").status is Status.UNKNOWN
