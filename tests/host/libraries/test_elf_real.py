"""The reader of ELF files on those of this machine, beside readelf of binutils."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.libraries.elf import MAGIC
from npudoctor.host.libraries.library import Libraries
from npudoctor.host.libraries.needs import read_needs

FILES = Files(LocalDisk())
PATTERNS = ("/usr/bin/*", "/usr/sbin/*", "/lib64/*.so*", "/usr/lib/*/*.so*", f"{sys.base_prefix}/lib/*.so*")
LARGEST = 20 << 20  # bytes: readelf prints a line for each symbol


def real_files(most: int) -> list[str]:
    """ELF files of this machine, those of the Python that runs the tests and what it has installed first."""
    folders = {os.path.dirname(os.__file__) + "/lib-dynload/*.so", *(f"{path}/*/*.so*" for path in sys.path)}
    named = [
        os.path.realpath(sys.executable),
        *(path for end in sorted(folders) for path in glob.glob(end)[:most]),
    ]
    named += [path for end in PATTERNS for path in glob.glob(end)[:most]]
    return [path for path in named if os.access(path, os.R_OK) and is_elf(path)]


def is_elf(path: str) -> bool:
    if not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
        return False
    with open(path, "rb") as file:
        return file.read(4) == MAGIC


def readelf(option: str, path: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        ["readelf", "--wide", option, path], capture_output=True, text=True, errors="replace", env=environment
    ).stdout


@pytest.mark.skipif(not shutil.which("readelf"), reason="binutils has readelf")
def test_it_says_what_readelf_says() -> None:
    paths, libraries = real_files(8), Libraries(FILES)
    for path in paths:
        library, symbols = libraries.read(path), libraries.symbols(path)
        assert library is not None and symbols is not None
        dynamic = readelf("--dynamic", path)
        texts = [re.findall(rf"\({kind}\).*\[(.*)\]", dynamic) for kind in ("NEEDED", "SONAME", "RUNPATH")]
        said = [[text] if text is not None else [] for text in (library.soname, library.runpath)]
        assert [[*library.needed], *said] == texts, path
        lines = readelf("--dyn-syms", path).splitlines()
        rows = [line.split() for line in lines if re.match(r" *\d+: ", line)]
        named = [(row[4], row[6], row[7].partition("@")[0]) for row in rows if len(row) > 7]
        wanted = {name for bind, owner, name in named if owner == "UND" and bind not in ("LOCAL", "WEAK")}
        offered = {name for bind, owner, name in named if owner != "UND" and bind != "LOCAL"}
        assert symbols.undefined == libraries.read_undefined(path) == frozenset(wanted), path
        assert offered <= symbols.defined, path
        # Asked before all symbols are known, so that the hash tables tell.
        assert Libraries(FILES).exports(path, [*offered, "of_nobody"]) == frozenset(offered), path
        versions = readelf("--version-info", path)
        assert {name for _library, names in library.required_versions for name in names} == set(
            re.findall(r"Name: (\S+)  Flags: .*Version: ", versions)
        ), path
    assert len(paths) > 10


def test_what_the_loader_needs_is_the_same_for_both_who_ask() -> None:
    libraries, paths = Libraries(FILES), real_files(60)
    for path in paths:
        needs, library = read_needs(FILES, path), libraries.read(path)
        assert needs is not None and library is not None
        assert (needs.machine, needs.interpreter) == (library.machine, library.interpreter), path
        assert needs.needed[: len(library.needed)] == library.needed, path
        assert ":".join(needs.rpath) == (library.rpath or ""), path
        assert ":".join(needs.runpath) == (library.runpath or ""), path
    assert len(paths) > 10


def test_what_is_no_library_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")
    assert read_needs(FILES, str(tmp_path / "text")) is None
    assert read_needs(FILES, str(tmp_path / "none")) is None


def test_a_damaged_one(tmp_path: Path) -> None:
    whole = Path(os.path.realpath(sys.executable)).read_bytes()
    for length in (4, 10, 40, 63, 100, 600):
        (tmp_path / str(length)).write_bytes(whole[:length])
        with pytest.raises(CannotTell):
            read_needs(FILES, str(tmp_path / str(length)))
