"""ELF files: what is read of well made ones, and what becomes of damaged and hostile ones."""

from __future__ import annotations

import random
import struct

import pytest

from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.elf import BadLibrary, Libraries
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
    found = libraries({"/lib/real": MADE, "/lib/one.so": link("real")}).at("/lib/one.so")
    assert found is not None
    assert (found.path, found.bits, found.machine) == ("/lib/real", 64, "aarch64")
    assert (found.soname, found.needed) == ("libone.so.1", ("libc.so.6", "libm.so.6"))
    assert (found.rpath, found.runpath, found.interpreter) == (None, "$ORIGIN/lib", None)
    assert found.wants == (("libc.so.6", ("GLIBC_2.17", "GLIBC_2.28")), ("libm.so.6", ("GLIBC_2.29",)))
    assert found.defines == ("ONE_1", "ONE_2")


def test_symbols() -> None:
    found = libraries({"/one.so": MADE}).symbols("/one.so")
    assert found is not None
    assert (set(found.defined), set(found.wanted)) == ({"here"}, {"there"})


def test_a_large_library_is_not_read_whole() -> None:
    class Counting(MemoryDisk):
        asked = 0

        def read(self, path: str, limit: int, start: int = 0) -> bytes:
            self.asked += limit
            return super().read(path, limit, start)

    disk = Counting({"/one.so": MADE + bytes(50 << 20)})
    assert Libraries(Files(disk)).at("/one.so") is not None
    assert disk.asked < 1 << 20


def test_missing_and_unreadable() -> None:
    asked = libraries({"/bad.so": unreadable()})
    assert asked.at("/none.so") is None
    assert asked.symbols("/none.so") is None
    with pytest.raises(CannotTell, match="cannot be read"):
        asked.at("/bad.so")


@pytest.mark.parametrize("content", [b"", b"\x7fEL", b"/* GNU ld script */", MADE[:20], MADE[:100]])
def test_no_library(content: bytes) -> None:
    asked = libraries({"/bad.so": content})
    for _again in range(2):
        with pytest.raises(BadLibrary):
            asked.at("/bad.so")


def test_a_folder_in_place_of_a_library() -> None:
    asked = libraries({"/bad.so": folder()})
    for question in (asked.at, asked.symbols):
        with pytest.raises(BadLibrary, match="not a regular file"):
            question("/bad.so")


def test_a_table_of_versions_that_has_no_end() -> None:
    at = MADE.index(struct.pack("<HH", 1, 2))  # a version, and how many names it has
    endless = bytearray(MADE)
    endless[at + 12 : at + 16] = bytes(4)  # the next entry is this one
    found = libraries({"/bad.so": bytes(endless)}).at("/bad.so")
    assert found is not None
    assert len(found.wants) == 2


def test_hostile_bytes_are_an_answer_or_cannot_tell() -> None:
    chance = random.Random(7)  # noqa: S311
    for _turn in range(400):
        bad = bytearray(MADE)
        for _byte in range(chance.randint(1, 12)):
            bad[chance.randrange(16, len(bad))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        asked = libraries({"/bad.so": bytes(bad[: chance.randint(64, len(bad))])})
        for question in (asked.at, asked.symbols):
            try:
                question("/bad.so")
            except CannotTell as told:
                assert "/bad.so" in told.reason
