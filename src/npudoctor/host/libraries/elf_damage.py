"""Whether an ELF library can still be what a linker wrote: its headers, its tables, samples of its code.

A disk that was full, a crash, a copy in text mode leave files of the right name, and often of the right size,
that end Python without a word. Not all of a library is read: some ten small parts, microseconds each. Only
what no linker writes is called damage, so what people do to libraries (strip, patchelf) is well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from npudoctor.host.fs.disk import Opened

PAGE = 4096
STEP = 4 << 20  # bytes of code for each sample
SAMPLES = 24  # of one section
MOST = 1024  # headers, tags, holes
_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian: machines that train
_SHARED = 3
_HEADER, _SEGMENT, _SECTION = 64, 56, 64
_LOAD, _DYNAMIC = 1, 2
_NULL, _PROGBITS, _NOBITS, _EXECUTABLE = 0, 1, 8, 4
_NEEDED, _TEXTS, _SYMBOLS, _TEXTS_SIZE = 1, 5, 6, 10
_INIT, _FINI, _HASHES = 12, 13, 0x6FFFFEF5
_RELOCATIONS = ((7, 8), (23, 2))  # tags of a table and of its size
_SYMBOL = 24
_SPAN = 8 * 24  # a linker leaves a relocation or two empty, not eight


class _Damaged(Exception):
    """Something that no linker writes."""


class _Load(NamedTuple):
    """A part of the file, and where it lies in memory."""

    start: int
    address: int
    size: int


class _Span(NamedTuple):
    """A part of the file."""

    start: int
    size: int


def is_damaged(file: Opened, size: int, thorough: bool = True) -> bool:
    """Whether a library cannot be loaded, or has lost a part; what is no ELF file of 64 bits is not judged.
    `thorough`: samples of its code and tables too, not only how they begin."""
    head = file.read(0, PAGE)
    if len(head) < _HEADER or not head.startswith(_MAGIC) or head[16] != _SHARED:
        return False
    try:
        full = _tables(file, head, size)
        hole = file.hole(0)
        if not thorough and hole is None:
            return False
        full += _code(file, head, size)
        return _has_empty_page(file, full) or _has_hole(file, hole, full)
    except (_Damaged, struct.error):
        return True


def _tables(file: Opened, head: bytes, size: int) -> list[_Span]:
    """The tables that the loader reads, of which no page is empty; the beginning of each is looked at."""
    loads, dynamic = _segments(file, head, size)
    if not dynamic:
        return []
    tags = _tags(file.read(*dynamic[0]))
    if _TEXTS not in tags or _SYMBOLS not in tags:
        raise _Damaged
    texts = _Span(_place(loads, tags[_TEXTS][0]), tags.get(_TEXTS_SIZE, [1])[0])
    _check_texts(file, texts, tags.get(_NEEDED, []))
    if _HASHES in tags:
        _check_hashes(file, _place(loads, tags[_HASHES][0]), _place(loads, tags[_SYMBOLS][0]))
    for address in filter(None, (*tags.get(_INIT, ()), *tags.get(_FINI, ()))):
        _check_filled(file.read(_place(loads, address), 4))
    spans = [texts]
    for table, length in _RELOCATIONS:
        if table in tags and tags.get(length, [0])[0] >= _SPAN:
            span = _Span(_place(loads, tags[table][0]), tags[length][0])
            _check_filled(file.read(span.start, _SPAN))
            spans.append(span)
    return spans


def _segments(file: Opened, head: bytes, size: int) -> tuple[list[_Load], list[_Span]]:
    """What is loaded of the file, and its dynamic section, if it says where that is."""
    (start,) = struct.unpack_from("<Q", head, 32)
    each, count = struct.unpack_from("<HH", head, 54)
    if each != _SEGMENT or not 0 < count <= MOST or start + each * count > size:
        raise _Damaged
    end = start + each * count
    table = head[start:end] if end <= len(head) else file.read(start, each * count)
    loads, dynamic = [], []
    for kind, _flags, at, address, _real, here, there, align in struct.iter_unpack("<IIQQQQQQ", table):
        if kind == _LOAD:
            if at + here > size or here > there or (align > 1 and (at - address) % align):
                raise _Damaged
            loads.append(_Load(at, address, here))
        elif kind == _DYNAMIC and here:
            dynamic.append(_Span(at, min(here, 16 * MOST)))
    if not loads:
        raise _Damaged
    return loads, dynamic


def _tags(table: bytes) -> dict[int, list[int]]:
    tags: dict[int, list[int]] = {}
    for tag, value in struct.iter_unpack("<QQ", table[: len(table) // 16 * 16]):
        if not tag:
            return tags
        tags.setdefault(tag, []).append(value)
    return tags


def _place(loads: Sequence[_Load], address: int) -> int:
    """Where in the file an address of memory lies."""
    for start, at, size in loads:
        if at <= address < at + size:
            return start + address - at
    raise _Damaged


def _check_filled(part: bytes) -> None:
    if not part.strip(b"\0"):
        raise _Damaged


def _check_texts(file: Opened, texts: _Span, names: Sequence[int]) -> None:
    """They begin with an empty one, and end where one ends; the names of libraries are among them."""
    if file.read(texts.start, 1) != b"\0" or file.read(texts.start + texts.size - 1, 1) != b"\0":
        raise _Damaged
    for at in names[:1]:
        if at >= texts.size or file.read(texts.start + at, 1) in (b"", b"\0"):
            raise _Damaged


def _check_hashes(file: Opened, hashes: int, symbols: int) -> None:
    """Of the table by which symbols are found: how it begins, and the symbols before the first in it."""
    buckets, first, words, _shift = struct.unpack("<4I", file.read(hashes, 16))
    if not buckets or not words or words & (words - 1):
        raise _Damaged
    if first > 1:
        _check_filled(file.read(symbols + _SYMBOL, min((first - 1) * _SYMBOL, PAGE)))


def _code(file: Opened, head: bytes, size: int) -> Iterator[_Span]:
    """The sections that hold code; none where the file does not tell."""
    (start,) = struct.unpack_from("<Q", head, 40)
    each, count = struct.unpack_from("<HH", head, 58)
    if not start or each != _SECTION or count > MOST or start + each * count > size:
        return
    for row in struct.iter_unpack("<IIQQQQIIQQ", file.read(start, each * count)):
        _name, kind, flags, _address, at, length, _link, _info, align, _each = row
        if align & (align - 1) or (kind not in (_NULL, _NOBITS) and at + length > size):
            raise _Damaged  # bytes were put in, or taken out, before the table
        if kind == _PROGBITS and flags & _EXECUTABLE:
            yield _Span(at, length)


def _has_empty_page(file: Opened, full: Sequence[_Span]) -> bool:
    """Whether a whole page is zeros, by samples at equal distances, the first and the last page included."""
    return any(
        not file.read(at, PAGE).strip(b"\0") for span in full for at in _samples(*_pages(span), span.size)
    )


def _samples(first: int, end: int, size: int) -> list[int]:
    last = end - PAGE
    if last <= first:
        return [first] if last == first else []
    number = min(SAMPLES, 2 + size // STEP)
    return sorted({first + (last - first) * index // (number - 1) // PAGE * PAGE for index in range(number)})


def _pages(span: _Span) -> tuple[int, int]:
    """The whole pages in a part of a file: where the first begins, and where the last ends."""
    return -(-span.start // PAGE) * PAGE, (span.start + span.size) // PAGE * PAGE


def _has_hole(file: Opened, hole: Optional[tuple[int, int]], full: Sequence[_Span]) -> bool:
    """Whether no block of the disk holds some page. Elsewhere in a library there may be zeros, which a
    thrifty copy leaves out. `hole`: the first one."""
    for _number in range(MOST):
        if hole is None:
            return False
        for first, end in map(_pages, full):
            if min(end, hole[1]) - max(first, hole[0]) >= PAGE:
                return True
        hole = file.hole(hole[1])
    return False
