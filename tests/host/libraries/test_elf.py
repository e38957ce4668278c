"""The reader of ELF files: all kinds of them, and hostile bytes, which are an answer or Damaged."""

from __future__ import annotations

import itertools
import os
import random
import struct
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.elves import library

from npudoctor.host.libraries.elf import GNU_HASH, HASH, NEEDED, PAGE, SONAME, DamagedElf, Elf

EXPORTS = [f"offered_{number}" for number in range(40)]
IMPORTS = [f"asked_{number}" for number in range(7)]
KINDS = list(itertools.product((64, 32), "<>", ((), ("gnu",), ("old",), ("gnu", "old")), (False, True)))


def made(
    bits: int = 64, order: str = "<", hashes: Any = ("gnu",), stripped: bool = False, **more: Any
) -> bytes:
    return library(
        "libc.so.6",
        "libm.so.6",
        soname="libone.so.1",
        runpath="$ORIGIN/lib",
        wants={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"], "libm.so.6": ["GLIBC_2.29"]},
        defines=["ONE_1", "ONE_2"],
        bits=bits,
        order=order,
        hashes=hashes,
        stripped=stripped,
        **{"exports": EXPORTS, "imports": IMPORTS, **more},
    )


def elf(content: bytes) -> Elf:
    return Elf(lambda start, size: content[start : start + size], len(content))


@pytest.mark.parametrize(("bits", "order", "hashes", "stripped"), KINDS)
def test_every_kind_says_the_same(bits: int, order: str, hashes: Any, stripped: bool) -> None:
    read = elf(made(bits, order, hashes, stripped))
    assert (read.bits, read.machine, read.read_tag_text(SONAME)) == (bits, "x86_64", "libone.so.1")
    assert read.read_tag_texts(NEEDED) == ["libc.so.6", "libm.so.6"]
    assert read.required_versions() == (
        ("libc.so.6", ("GLIBC_2.17", "GLIBC_2.28")),
        ("libm.so.6", ("GLIBC_2.29",)),
    )
    assert read.defined_versions() == ("ONE_1", "ONE_2")
    if stripped and not hashes:
        assert (read.symbols(), read.read_undefined(), read.exports(EXPORTS)) == (None, set(), None)
        return
    symbols = read.symbols()
    assert symbols is not None and symbols[0] - {""} == set(EXPORTS) and symbols[1] == set(IMPORTS)
    assert read.read_undefined() == set(IMPORTS)
    assert read.exports([*EXPORTS[::2], *IMPORTS, "nobodys"]) == set(EXPORTS[::2])


@pytest.mark.parametrize("interpreter", [None, "/lib64/ld.so"])
def test_one_that_offers_nothing_wants_all_the_same(interpreter: Optional[str]) -> None:
    """The linker of GNU writes a hash table that begins with symbol 1, and has none."""
    read = elf(made(exports=[], interpreter=interpreter))
    assert read.read_undefined() == set(IMPORTS)
    assert read.exports(EXPORTS) == set()


def test_few_pages_of_a_large_library_are_read() -> None:
    content = made(exports=[f"offered_{number}" for number in range(20000)])
    asked = []

    def read(start: int, size: int) -> bytes:
        asked.append(size)
        return content[start : start + size]

    large = Elf(read, 100 << 20)
    assert large.exports([f"nobodys_{number}" for number in range(64)]) == set()
    assert large.read_undefined() == set(IMPORTS)
    assert sum(asked) < 40 * PAGE < len(content)


def test_a_table_of_versions_that_has_no_end() -> None:
    content = bytearray(made())
    at = content.index(struct.pack("<HH", 1, 2))  # a version, and how many names it has
    content[at + 12 : at + 16] = bytes(4)  # the next entry is this one
    assert len(elf(bytes(content)).required_versions()) == 2


def test_tables_of_symbols_that_have_no_end() -> None:
    """A chain that leads to itself, and one of which nobody is the last."""
    old = bytearray(made(hashes=("old",)))
    read = elf(bytes(old))
    at = read.offset(read.tags[HASH][0])
    buckets, count = struct.unpack_from("<2I", old, at)
    chains = at + 8 + buckets * 4
    old[chains : chains + 4 * count] = b"".join(struct.pack("<I", number) for number in range(count))
    assert elf(bytes(old)).exports(["nobodys"]) == set()
    new = bytearray(made(hashes=("gnu",), stripped=True))
    read = elf(bytes(new))
    at = read.offset(read.tags[GNU_HASH][0])
    new[at + 16 : at + 24] = b"\xff" * 8
    for place in range(at + 24 + 12, at + 24 + 12 + 4 * len(EXPORTS), 4):
        new[place] &= 0xFE
    for question in (lambda: elf(bytes(new)).exports(["nobodys"]), lambda: elf(bytes(new)).symbols()):
        try:
            assert question() is not None
        except DamagedElf as damaged:
            assert str(damaged)


@pytest.mark.parametrize(("bits", "order", "hashes", "stripped"), KINDS)
def test_hostile_bytes_are_an_answer_or_damaged(bits: int, order: str, hashes: Any, stripped: bool) -> None:
    whole, chance = made(bits, order, hashes, stripped, rodata=b"text"), random.Random(7)  # noqa: S311
    for _turn in range(60):
        bad = bytearray(whole)
        for _byte in range(chance.randint(1, 12)):
            bad[chance.randrange(16, len(bad))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        content = bytes(bad[: chance.randint(16, len(bad))])
        questions = (
            *(
                Elf.required_versions,
                Elf.defined_versions,
                Elf.interpreter,
                Elf.sizes,
                Elf.symbols,
                Elf.read_undefined,
            ),
            *(lambda read: read.exports(["nobodys", *EXPORTS]), lambda read: read.section(".rodata")),
            lambda read: read.read_tag_texts(NEEDED),
        )
        for question in questions:
            try:
                question(elf(content))
            except DamagedElf as damaged:
                assert str(damaged)


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path: Path) -> None:
    """Mapped into memory, it would end this process."""
    path = tmp_path / "one.so"
    path.write_bytes(made(exports=[f"offered_{number}" for number in range(5000)]))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        read = Elf(lambda start, size: os.pread(descriptor, size, start), path.stat().st_size)
        assert read.machine == "x86_64"
        os.truncate(path, 100)
        with pytest.raises(DamagedElf):
            read.exports(["nobodys"])
    finally:
        os.close(descriptor)
