"""Root starts a program only where every library that its loader could take is root's: real files, uids."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest
from tests.support.roots import commands, python_in, theirs

from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.libraries.needs import read_needs

pytestmark = pytest.mark.needs_root


@pytest.fixture
def linked(tmp_path: Path, need: Callable[..., None]) -> Path:
    """A program of root's that finds its library beside itself."""
    need("gcc")
    folder = tmp_path / "app"
    folder.mkdir()
    (tmp_path / "lib.c").write_text("int f(void) { return 0; }\n")
    (tmp_path / "main.c").write_text("int f(void); int main(void) { return f(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libf.so", tmp_path / "lib.c"], check=True)
    link = ["-L", str(folder), "-lf", "-Wl,-rpath,$ORIGIN/../app"]
    subprocess.run(["gcc", "-o", folder / "main", tmp_path / "main.c", *link], check=True)
    return folder / "main"


def test_a_library_of_another_user(linked: Path) -> None:
    assert commands().run([str(linked)]).ok
    theirs(linked.parent / "libf.so")
    answer = commands().run([str(linked)])
    assert answer.ended == "untrusted" and answer.stderr.endswith("libf.so belongs to another user")


def test_a_folder_of_libraries_into_which_others_may_put_one(linked: Path) -> None:
    linked.parent.chmod(0o1777)
    assert commands().run([str(linked)]).ended == "untrusted"


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"])
def test_variables_of_the_loader(linked: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "more").mkdir()
    shutil.copy2(linked.parent / "libf.so", tmp_path / "more")
    value = f"{tmp_path}/more" + ("" if name == "LD_LIBRARY_PATH" else "/libf.so")
    assert commands().why_untrusted([str(linked)], {name: value}) is None
    theirs(tmp_path / "more/libf.so")
    assert commands().why_untrusted([str(linked)], {name: value}) is not None


def test_what_is_no_library_is_passed_over_and_the_next_is_judged(linked: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    shutil.copy2(linked.parent / "libf.so", tmp_path / "b")
    (linked.parent / "libf.so").write_text("no library\n")
    variables = {"LD_LIBRARY_PATH": f"{tmp_path}/a:{tmp_path}/b"}
    (tmp_path / "a/libf.so").write_text("no library either\n")
    assert commands().why_untrusted([str(linked)], variables) is None
    theirs(tmp_path / "b/libf.so")
    assert (
        commands().why_untrusted([str(linked)], variables) == f"{tmp_path}/b/libf.so belongs to another user"
    )


def test_more_files_than_are_judged(linked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npudoctor.host.startup.program_start.MAX_FILES", 2)
    assert "more than 2 files" in (commands().why_untrusted([str(linked)], {}) or "")


PROCESSORS = ("glibc-hwcaps/x86-64-v3", "glibc-hwcaps/aarch64-x1", "tls", "haswell/x86_64", "atomics")


@pytest.mark.parametrize("below", PROCESSORS)
@pytest.mark.parametrize("by", ["RUNPATH", "LD_LIBRARY_PATH"])
def test_copies_of_a_library_for_some_processors(linked: Path, tmp_path: Path, below: str, by: str) -> None:
    place = linked.parent if by == "RUNPATH" else tmp_path / "more"
    variables = {} if by == "RUNPATH" else {"LD_LIBRARY_PATH": str(place)}
    (place / below).mkdir(parents=True)
    shutil.copy2(linked.parent / "libf.so", place / below)
    assert commands().why_untrusted([str(linked)], variables) is None
    assert commands().may_load_from(str(place))
    theirs(place / below / "libf.so")
    assert "belongs to another user" in (commands().why_untrusted([str(linked)], variables) or "")
    assert not commands().may_load_from(str(place))
    (place / below / "libf.so").unlink()
    (place / below).chmod(0o1777)
    assert "is writable by other users" in (commands().why_untrusted([str(linked)], variables) or "")


@pytest.mark.parametrize("value", [":/usr/lib", "/usr/lib:", "/usr/lib::/lib", "$ORIGIN/../sticky"])
def test_entries_of_the_loaders_path_that_are_not_plain(linked: Path, tmp_path: Path, value: str) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    assert commands().why_untrusted([str(linked)], {"LD_LIBRARY_PATH": value}) is not None


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT"])
@pytest.mark.parametrize("value", ["./libx.so", "libx.so", "/usr/lib/../../{}/libx.so"])
def test_a_library_that_is_preloaded_by_name(linked: Path, tmp_path: Path, name: str, value: str) -> None:
    shutil.copy2(linked.parent / "libf.so", linked.parent / "libx.so")
    theirs(linked.parent / "libx.so")
    variables = {name: value.format(linked.parent), "LD_LIBRARY_PATH": str(linked.parent)}
    assert commands().why_untrusted([str(linked)], variables) is not None


@pytest.mark.parametrize("flag", ["-Wl,--dynamic-linker=lib/ld.so", "-Wl,-rpath,lib", "-Wl,-rpath,/opt:"])
def test_what_a_program_looks_for_in_the_working_directory(linked: Path, tmp_path: Path, flag: str) -> None:
    subprocess.run(["gcc", "-o", tmp_path / "odd", tmp_path / "main.c", linked.parent / "libf.so", flag],
                   check=True)  # fmt: skip
    assert "is not an absolute path" in (commands().why_untrusted([str(tmp_path / "odd")], {}) or "")


def test_a_library_of_an_extension_of_python(linked: Path, tmp_path: Path) -> None:
    python = python_in(tmp_path / "base")
    (folder,) = tmp_path.glob("base/lib/python*/lib-dynload")
    link = ["-L", str(linked.parent), "-lf", f"-Wl,-rpath,{linked.parent}"]
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", folder / "any.so",
                    tmp_path / "lib.c", *link], check=True)  # fmt: skip
    assert commands().why_untrusted([str(python), "-m", "pip"], {}) is None
    theirs(linked.parent / "libf.so")
    assert "libf.so belongs" in (commands().why_untrusted([str(python), "-m", "pip"], {}) or "")
    assert commands().why_untrusted([str(python), "-I", "-S", "-c", ""], {}) is None


def test_a_loader_that_looks_elsewhere(linked: Path, tmp_path: Path) -> None:
    """It has a cache of its own, by which it finds what is nowhere for the system's."""
    copy, program = tmp_path / "ld.so", tmp_path / "odd"
    standard = read_needs(Files(LocalDisk()), str(linked))
    assert standard is not None and standard.interpreter is not None
    shutil.copy2(standard.interpreter, copy)
    flags = [f"-Wl,--dynamic-linker={copy}", "-L", str(linked.parent), "-lf"]
    subprocess.run(["gcc", "-o", program, tmp_path / "main.c", *flags], check=True)
    variables = {"LD_LIBRARY_PATH": str(linked.parent)}
    assert commands().why_untrusted([str(program)], variables) is None
    assert "looks for libf.so" in (commands().why_untrusted([str(program)], {}) or "")


def test_damaged_programs_are_not_started(linked: Path) -> None:
    """Whatever the kernel would make of them."""
    whole = linked.read_bytes()
    for length in (4, 20, 64, 100, 700, 0x2E00):
        linked.write_bytes(whole[:length])
        assert commands().run([str(linked)]).ended in ("untrusted", "not-started", "exited")
    for at in range(32, 64):
        linked.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        commands().why_untrusted([str(linked)], {})
