"""Damaged libraries, made of a real one as crashes, full disks and copies in text mode make them."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Callable

import pytest
from tests.elves import library

from npudoctor.host.fs.disk import LocalDisk
from npudoctor.host.libraries.elf import PAGE
from npudoctor.host.libraries.elf_damage import is_damaged

DISK = LocalDisk()
# The largest extension module of the Python that runs the tests, and what it has besides.
FOLDER = Path(os.__file__).parent / "lib-dynload"
REAL = sorted(FOLDER.glob("*.so"), key=lambda path: path.stat().st_size)[-1:]

pytestmark = pytest.mark.skipif(not REAL, reason="this Python has no extension modules of its own")


def damaged(path: Path) -> bool:
    with DISK.open_file(str(path)) as file:
        return is_damaged(file, path.stat().st_size)


def table(content: bytes, kind: int) -> tuple[int, int]:
    """Where the segment of a kind lies, and how long it is."""
    (start,) = struct.unpack_from("<Q", content, 32)
    for number in range(struct.unpack_from("<H", content, 56)[0]):
        row = struct.unpack_from("<IIQQQQQQ", content, start + 56 * number)
        if row[0] == kind:
            return row[2], row[5]
    raise AssertionError("no such segment")


def loaded(content: bytes) -> int:
    """Where the part of it ends that is loaded; behind it are names for debuggers."""
    (start,) = struct.unpack_from("<Q", content, 32)
    count = struct.unpack_from("<H", content, 56)[0]
    rows = [struct.unpack_from("<IIQQQQ", content, start + 56 * number) for number in range(count)]
    return max(int(row[2] + row[5]) for row in rows if row[0] == 1)


def code(content: bytes) -> tuple[int, int]:
    """Where the longest section of code lies, and how long it is."""
    (start,) = struct.unpack_from("<Q", content, 40)
    rows = [
        struct.unpack_from("<IIQQQQ", content, start + 64 * number)
        for number in range(struct.unpack_from("<H", content, 60)[0])
    ]
    return max(((row[4], row[5]) for row in rows if row[2] & 4 and row[1] == 1), key=lambda one: one[1])


def without(content: bytes, start: int, size: int) -> bytes:
    return content[:start] + bytes(size) + content[start + size :]


def junk(content: bytes, start: int, size: int) -> bytes:
    return content[:start] + bytes(7 * at * at % 251 + 1 for at in range(size)) + content[start + size :]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.so"))[::4], ids=lambda path: path.name)
def test_what_this_python_brings_is_well(path: Path) -> None:
    assert not damaged(path)


def test_what_the_loader_has_in_this_process_is_well() -> None:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if ".so" in line and "/" in line}
    assert [path for path in paths if os.path.isfile(path) and damaged(Path(path))] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: without(text, PAGE, len(text) - PAGE),
        lambda text: without(text, loaded(text) // 3, len(text)),
        lambda text: without(text, *table(text, 2)),
        lambda text: junk(text, *table(text, 2)),
        lambda text: junk(text, 64, 400),
        lambda text: without(text, 64, 400),
        lambda text: without(text, code(text)[0] // PAGE * PAGE, code(text)[1] // PAGE * PAGE),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text[:PAGE] + text[PAGE + 1 :],
        lambda text: text[: loaded(text) // 2],
    ],
)
def test_damage(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    content = REAL[0].read_bytes()
    path = tmp_path / "x.so"
    path.write_bytes(content)
    assert not damaged(path)
    path.write_bytes(change(content))
    assert damaged(path)


def test_a_hole_in_its_code(tmp_path: Path) -> None:
    """A full disk leaves one between the samples too; where there are zeros anyway, it means nothing."""
    content, path = REAL[0].read_bytes(), tmp_path / "x.so"
    start, size = code(content)
    first = -(-(start + size // 3) // PAGE) * PAGE
    with path.open("wb") as file:
        file.write(content[:first])
        file.seek(first + PAGE)
        file.write(content[first + PAGE :])
    with DISK.open_file(str(path)) as file_:
        hole = file_.hole(0)
    if first + PAGE > start + size or hole is None:
        pytest.skip("too small a module, or a file system without holes")
    assert hole == (first, first + PAGE) and damaged(path)


def test_how_others_begin_is_enough(tmp_path: Path) -> None:
    content, path = REAL[0].read_bytes(), tmp_path / "x.so"
    for text, found in ((content, False), (without(content, *table(content, 2)), True)):
        path.write_bytes(text)
        with DISK.open_file(str(path)) as file:
            assert is_damaged(file, path.stat().st_size, is_thorough=False) is found


@pytest.mark.parametrize(
    "content",
    [
        library("libc.so.6", soname="a.so", exports=("f",), imports=("g",), defines=("A_1",)),
        library(),
        b"\x7fELF\x01" + bytes(200),  # 32 bits
        b"",
        b"text",
    ],
)
def test_what_is_small_or_not_judged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    assert not damaged(path)
