"""The light reader of what the loader needs, beside the one that is made with pyelftools."""

from __future__ import annotations

import glob
import os
import sys
from pathlib import Path

import pytest

from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.libraries.elf import Libraries
from npudoctor.host.libraries.elf_needs import needs_of

FILES = Files(LocalDisk())
PATTERNS = ("/usr/bin/*", "/usr/sbin/*", "/lib64/*.so*", "/usr/lib/*/*.so*", f"{sys.base_prefix}/lib/*.so*")


def test_it_reads_what_the_library_reads() -> None:
    libraries, seen = Libraries(FILES), 0
    for path in [os.path.realpath(sys.executable), *(one for end in PATTERNS for one in glob.glob(end)[:60])]:
        if not os.path.isfile(path) or not os.access(path, os.R_OK):
            continue
        needs = needs_of(FILES, path)
        if needs is None:
            with open(path, "rb") as file:
                assert file.read(4) != b"\x7fELF"
            continue
        library = libraries.at(path)
        assert library is not None
        seen += 1
        assert (needs.machine, needs.interpreter) == (library.machine, library.interpreter), path
        assert needs.needed[: len(library.needed)] == library.needed, path
        assert ":".join(needs.rpath) == (library.rpath or ""), path
        assert ":".join(needs.runpath) == (library.runpath or ""), path
    assert seen > 10


def test_a_damaged_one(tmp_path: Path) -> None:
    whole = Path(os.path.realpath(sys.executable)).read_bytes()
    for length in (4, 10, 40, 63, 100, 600):
        (tmp_path / str(length)).write_bytes(whole[:length])
        with pytest.raises(CannotTell):
            needs_of(FILES, str(tmp_path / str(length)))
