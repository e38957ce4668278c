"""source-shadowing: what stands before the installed packages, and hides one of them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.others import let_through

from npudoctor import Risk, Severity, Status
from npudoctor.checks.python.source_shadowing import SPAWNED, source_shadowing
from npudoctor.checks.python.source_shadowing import source_shadowing as check
from npudoctor.host import Host, Options
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.users.access import is_closed
from npudoctor.host.users.identity import Identity
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, folder, link, package_files, unreadable

STDLIB = "/usr/lib/python3.11"
CANN = "/usr/local/Ascend/ascend-toolkit/latest/python/site-packages"
INSTALLED: dict[str, Content] = {
    f"{SITE}/numpy/__init__.py": "",
    f"{CANN}/te/__init__.py": "",
    f"{CANN}/te-0.4.0.dist-info/METADATA": "Name: te\nVersion: 0.4.0\n",
    f"{STDLIB}/random.py": "",
    f"{STDLIB}/json/__init__.py": "",
    "/job": folder(),
    "/proc/self/cwd": link("/job"),
}


# A framework, without its metadata too: what it imports may not be hidden.
TORCH: dict[str, Content] = {f"{SITE}/torch/__init__.py": ""}


def told(files: dict[str, Content], path: str = "", /, **variables: str) -> Asked:
    """The answer with these files beside what is installed, and this PYTHONPATH."""
    if path:
        variables["PYTHONPATH"] = path
    search_path = [entry for entry in path.split(":") if entry.startswith("/")]
    host = fake_host({**INSTALLED, **files}, variables=variables, search_path=(*search_path, STDLIB, SITE))
    return ask(source_shadowing, host)


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({}, ""),
        ({}, CANN),
        ({}, f"{CANN}:"),
        ({"/job/train.py": "", "/job/models/__init__.py": ""}, "/job"),
        ({"/job/torch/README.md": ""}, "/job"),
        ({"/job/mindspore/__init__.py": ""}, "/job"),
        ({"/opt/site/numpy/__init__.py": "", "/opt/site/numpy-2.0.0.dist-info/METADATA": ""}, "/opt/site"),
        ({"/opt/link": link(SITE)}, "/opt/link"),
        ({}, "/no/such/folder"),
        ({"/opt/random.py": ""}, f"{STDLIB}:/opt"),
    ],
)
def test_quiet_when_well(files: dict[str, Content], path: str) -> None:
    asked = told(files, path)
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    ("found", "code", "severity", "more"),
    [
        ("/src/torch/__init__.py", "source-shadowing.package", Severity.ERROR, TORCH),
        ("/src/numpy.py", "source-shadowing.package", Severity.WARNING, {}),
        ("/src/random.py", "source-shadowing.standard-library", Severity.WARNING, {}),
        ("/src/random.py", "source-shadowing.standard-library", Severity.ERROR, TORCH),
        ("/src/json/__init__.py", "source-shadowing.standard-library", Severity.WARNING, {}),
    ],
)
def test_an_entry_of_pythonpath_hides(
    found: str, code: str, severity: Severity, more: dict[str, Content]
) -> None:
    (finding,) = told({found: "", **more}, f"{CANN}:/src").findings
    assert (finding.code, finding.severity) == (code, severity)
    assert found in finding.message
    assert f"found first: {found}" in finding.evidence
    assert finding.fix is not None
    assert finding.fix.commands == (f"export PYTHONPATH={CANN}",)
    assert finding.fix.undo == (f"export PYTHONPATH={CANN}:/src",)
    assert finding.fix.risk is Risk.MANUAL


def test_the_only_entry_is_taken_out_by_unset() -> None:
    fix = told({"/src/torch/__init__.py": "", **TORCH}, "/src").findings[0].fix
    assert fix is not None
    assert fix.commands == ("unset PYTHONPATH",)


@pytest.mark.parametrize("path", [f"{CANN}:", f":{CANN}", f".:{CANN}"])
def test_an_empty_entry_is_the_working_directory(path: str) -> None:
    (finding,) = told({"/job/random.py": ""}, path).findings
    assert (finding.code, finding.severity) == ("source-shadowing.standard-library", Severity.WARNING)
    assert finding.fix is not None
    assert finding.fix.commands == (f"export PYTHONPATH={CANN}",)


def test_a_relative_entry() -> None:
    (finding,) = told({"/job/src/torch/__init__.py": "", **TORCH}, "src").findings
    assert "/job/src/torch/__init__.py hides torch" in finding.message


def test_a_file_that_fails_an_import_is_moved_aside_and_a_folder_is_not() -> None:
    torch = package_files("torch", "2.9.0")
    (finding,) = told({"/job/random.py": "", **torch}, CANN).findings
    assert (finding.code, finding.severity) == ("source-shadowing.standard-library", Severity.ERROR)
    assert finding.fix is not None and finding.fix.risk is Risk.MANUAL
    assert finding.fix.commands == ("mv -n /job/random.py /job/random.py.aside",)
    assert finding.fix.undo == ("mv -n /job/random.py.aside /job/random.py",)
    (finding,) = told({"/job/random/__init__.py": "", **torch}, CANN).findings
    assert finding.severity is Severity.ERROR
    assert finding.fix is not None and (finding.fix.commands, bool(finding.fix.title)) == ((), True)


def test_the_working_directory_alone_is_information() -> None:
    asked = told({"/job/random.py": "", "/job/te/__init__.py": ""}, CANN)
    assert sorted(asked.codes) == ["source-shadowing.package", "source-shadowing.standard-library"]
    assert {finding.severity for finding in asked.findings} == {Severity.INFO}
    assert asked.findings[0].fix is None
    assert told({"/job/random.py": ""}, PYTHONSAFEPATH="1").status is Status.SKIPPED


def test_what_multiprocessing_starts_looks_into_the_working_directory_first() -> None:
    """Where a framework is installed, its launcher starts the ranks."""
    files: dict[str, Content] = {f"{STDLIB}/socket.py": "", "/job/socket.py": ""}
    (finding,) = told(files).findings
    assert finding.weight is Severity.ERROR and finding.message.endswith("multiprocessing starts load it")
    assert finding.fix is not None and finding.fix.commands == ("mv -n /job/socket.py /job/socket.py.aside",)
    assert told(files, PYTHONSAFEPATH="1").status is Status.SKIPPED
    assert {finding.weight for finding in told({**files, "/job/random.py": ""}).findings} == {
        Severity.ERROR,
        Severity.INFO,
    }


def test_multiprocessing_loads_what_is_said_of_it(tmp_path: Path) -> None:
    """Each by itself: of a child of spawn, by this very Python."""
    line = "from multiprocessing.spawn import spawn_main; from multiprocessing import resource_tracker"
    for name in SPAWNED:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit({name!r})")
        done = subprocess.run([sys.executable, "-c", line], cwd=tmp_path, capture_output=True, text=True)
        assert done.stderr.strip() == name
        (tmp_path / f"{name}.py").unlink()


def test_the_same_file_under_another_name_is_not_hidden() -> None:
    """A development install: the checkout is on PYTHONPATH, and linked from site-packages."""
    files: dict[str, Content] = {
        "/src/torch_npu/__init__.py": "",
        f"{SITE}/torch_npu": link("/src/torch_npu"),
    }
    assert told(files, "/src").codes == []


def test_skipped_in_an_image() -> None:
    assert ask(source_shadowing, fake_host(root="/srv/image")).status is Status.SKIPPED


def test_cannot_tell_when_it_cannot_look() -> None:
    assert told({"/src": unreadable(errno.EIO)}, "/src").status is Status.UNKNOWN


def test_without_a_working_directory() -> None:
    assert told({"/proc/self/cwd": link("/gone")}, CANN).status is Status.OK


def test_python_itself_agrees(tmp_path: Path) -> None:
    """What we call hidden is what a real interpreter loads instead."""
    (tmp_path / "queue.py").write_text("")
    variables: dict[str, Any] = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    line = [sys.executable, "-c", "import queue; print(queue.__file__)"]
    loaded = subprocess.run(line, env=variables, capture_output=True, text=True, check=True).stdout.strip()
    assert loaded == str(tmp_path / "queue.py")
    user = Identity(1, "u", "/")  # as root it would not run an interpreter that others may write
    host = Host(Options(python=sys.executable), variables=variables, identity=user)
    (finding,) = [one for one in ask(source_shadowing, host).findings if one.severity is Severity.WARNING]
    host.close()
    assert finding.code == "source-shadowing.standard-library"
    assert f"found first: {loaded}" in finding.evidence


def test_an_entry_that_is_closed_is_passed_over_and_named() -> None:
    asked = told({"/closed": unreadable(), "/src/torch/__init__.py": "", **TORCH}, "/closed:/src:/closed")
    assert (asked.status, asked.codes) == (
        Status.PROBLEM,
        ["source-shadowing.closed-entry", "source-shadowing.package"],
    )
    assert asked.findings[0].severity is Severity.INFO and "skips them: /closed" in asked.findings[0].message
    inside = told({"/shut/in": unreadable()}, "/shut/in/deeper")
    assert (inside.status, inside.codes) == (Status.OK, ["source-shadowing.closed-entry"])


def test_a_working_directory_that_is_closed() -> None:
    asked = told({"/job/torch": unreadable(), "/job/__init__.py": unreadable()})
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
@pytest.mark.parametrize("mode", [0o000, 0o444, 0o311])
def test_python_itself_passes_over_a_closed_entry(tmp_path: Path, mode: int) -> None:
    entry = tmp_path / "entry"
    entry.mkdir()
    (entry / "colours.py").write_text("raise SystemExit('loaded')\n")
    let_through(tmp_path)
    entry.chmod(mode)
    script = (
        "import os, sys\nos.setgroups([]); os.setegid(65534); os.seteuid(65534)\n"
        "sys.path[:] = sys.argv[1:]; sys.path_importer_cache.clear()\n"
        "try:\n    import colours\nexcept ModuleNotFoundError:\n    print('passed over')"
    )
    line = [sys.executable, "-c", script, str(entry)]
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == "passed over\n"
    os.seteuid(65534)
    try:
        assert is_closed(Files(LocalDisk()), str(entry))
    finally:
        os.seteuid(0)


def test_a_folder_that_this_user_may_not_enter_hides_nothing() -> None:
    """Python passes over it."""
    closed: dict[str, Content] = {"/mine/te/__init__.py": "", "/mine/te": unreadable(errno.EACCES)}
    files = {**closed, f"{SITE}/te/__init__.py": "", "/proc/self/cwd": link("/mine")}
    for variables in ({"PYTHONPATH": "/mine"}, {}):
        asked = ask(source_shadowing, fake_host(files, variables=variables))
        assert (asked.status, asked.codes) == (Status.OK, [])


def backport(name: str, of: str) -> dict[str, Content]:
    """An install folder with a distribution that brings a module of Python, beside that module."""
    return {
        f"/opt/old/{name}/__init__.py": "",
        f"/opt/old/{of}-1.0.dist-info/METADATA": f"Name: {of}\nVersion: 1.0\n",
        f"{STDLIB}/{name}/__init__.py": "",
    }


@pytest.mark.parametrize("name", ["enum", "typing", "dataclasses", "uuid", "contextvars", "pathlib"])
def test_an_old_backport_in_an_install_folder(name: str) -> None:
    torch = package_files("torch", "2.5.1")
    (finding,) = told({**backport(name, f"{name}34"), **torch}, "/opt/old").findings
    assert (finding.code, finding.severity) == ("source-shadowing.standard-library", Severity.ERROR)
    assert finding.fix is not None
    assert finding.fix.commands == ("unset PYTHONPATH",)


def test_backports_that_do_no_harm() -> None:
    torch, paddle = package_files("torch", "2.5.1"), package_files("paddlepaddle", "3.3.1")
    assert told({**backport("statistics", "statistics"), **torch}, "/opt/old").codes == []
    assert told({**backport("configparser", "configparser"), **torch}, "/opt/old").codes == []
    asyncio = backport("asyncio", "asyncio")
    assert told({**asyncio, **paddle}, "/opt/old").codes == []
    assert told({**asyncio, **torch}, "/opt/old").codes == ["source-shadowing.standard-library"]


def scene(tmp: Path) -> Iterator[Asked]:
    """By PYTHONPATH, by an empty entry of it, by the working directory alone; and nothing to look at."""
    files: dict[str, Content] = {
        f"{SITE}/torch/__init__.py": "",
        f"{STDLIB}/random.py": "",
        "/src/torch/__init__.py": "",
        "/job/random.py": "",
        "/job": folder(),
        "/proc/self/cwd": link("/job"),
    }
    for path in ("/src", "/src:"):
        yield ask(check, fake_host(files, variables={"PYTHONPATH": path}, search_path=("/src", STDLIB, SITE)))
    shut = {**files, "/shut": unreadable()}
    yield ask(check, fake_host(shut, variables={"PYTHONPATH": "/shut"}, search_path=(STDLIB, SITE)))
    yield ask(check, fake_host())
