"""What libraries say, and what becomes of files that are none."""

from __future__ import annotations

import pytest

from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.library import BadLibrary, Libraries
from npudoctor.testing import Content, MemoryDisk, folder, link, unreadable

from ...elves import library  # noqa: TID252

MADE = library(
    "libc.so.6",
    "libm.so.6",
    soname="libone.so.1",
    runpath="$ORIGIN/lib",
    machine="aarch64",
    wants={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"], "libm.so.6": ["GLIBC_2.29"]},
    defines=["ONE_1", "ONE_2"],
    exports=["here"],
    imports=["there"],
)


def libraries(files: dict[str, Content]) -> Libraries:
    return Libraries(Files(MemoryDisk(files)))


def test_all_that_a_library_says() -> None:
    found = libraries({"/lib/real": MADE, "/lib/one.so": link("real")}).read("/lib/one.so")
    assert found is not None
    assert (found.path, found.bits, found.machine) == ("/lib/real", 64, "aarch64")
    assert (found.soname, found.needed) == ("libone.so.1", ("libc.so.6", "libm.so.6"))
    assert (found.rpath, found.runpath, found.interpreter) == (None, "$ORIGIN/lib", None)
    assert found.required_versions == (
        ("libc.so.6", ("GLIBC_2.17", "GLIBC_2.28")),
        ("libm.so.6", ("GLIBC_2.29",)),
    )
    assert found.defined_versions == ("ONE_1", "ONE_2")


def test_symbols() -> None:
    found = libraries({"/one.so": MADE}).symbols("/one.so")
    assert found is not None
    assert (set(found.defined), set(found.undefined)) == ({"here"}, {"there"})


def test_missing_and_unreadable() -> None:
    asked = libraries({"/bad.so": unreadable()})
    assert asked.read("/none.so") is None
    assert asked.symbols("/none.so") is None
    with pytest.raises(CannotTell, match="cannot be read"):
        asked.read("/bad.so")


@pytest.mark.parametrize("content", [b"", b"\x7fEL", b"/* GNU ld script */", MADE[:20], MADE[:100]])
def test_no_library(content: bytes) -> None:
    asked = libraries({"/bad.so": content})
    for _again in range(2):
        with pytest.raises(BadLibrary):
            asked.read("/bad.so")


def test_a_folder_in_place_of_a_library() -> None:
    asked = libraries({"/bad.so": folder()})
    for question in (asked.read, asked.symbols):
        with pytest.raises(BadLibrary, match="not a regular file"):
            question("/bad.so")
