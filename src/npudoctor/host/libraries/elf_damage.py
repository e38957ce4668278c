"""Recognises damaged ELF libraries by their headers, their tables and samples of their code.

A full disk, a crash or a copy in text mode leaves files of the right name, and often of the right size, that
crash Python without a message. Only some ten small parts of a library are read, in microseconds each. Damage
is only what no linker writes: tools such as strip and patchelf leave libraries that are fine.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from npudoctor.host.fs.disk import OpenFile
from npudoctor.host.libraries import elf as parts
from npudoctor.host.libraries.elf import PAGE, DamagedElf, Elf

SAMPLE_DISTANCE = 4 << 20  # bytes of code between two samples
MAX_SAMPLES = 24  # of one section
MAX_ENTRIES = 1024  # headers or holes of one file
_BEGINNING = parts.MAGIC + b"\x02\x01"  # 64 bits, little-endian: x86_64 and aarch64, on which jobs run
_HEADER, _SEGMENT, _SECTION = 64, 56, 64  # bytes of each header in a 64-bit file
_NULL, _PROGBITS, _NOBITS, _EXECUTABLE = 0, 1, 8, 4
_RELOCATIONS = ((7, 8), (23, 2))  # DT_RELA with DT_RELASZ, DT_JMPREL with DT_PLTRELSZ
_SYMBOL = 24  # bytes of Elf64_Sym
_SPAN_BYTES = 8 * 24  # a linker leaves one or two relocations empty (R_*_NONE), not eight in a row


class _Span(NamedTuple):
    """A part of the file."""

    start: int
    size: int


def is_damaged(file: OpenFile, size: int, is_thorough: bool = True) -> bool:
    """Whether a library cannot be loaded or has lost a part; False for what is not a 64-bit ELF library.

    `is_thorough`: also read samples of the code and tables, not only their beginnings.
    """
    head = file.read(0, _HEADER)
    if len(head) < _HEADER or not head.startswith(_BEGINNING) or head[16] != parts.SHARED:
        return False
    try:
        elf = Elf(file.read, size)
        # The program headers, and whether all that they load is in the file.
        start, entry_size, count = elf.header.segments, elf.header.segment_size, elf.header.segment_count
        if entry_size != _SEGMENT or not 0 < count <= MAX_ENTRIES or start + entry_size * count > size:
            return True
        loads = [segment for segment in elf.segments if segment.kind == parts.LOAD]
        for load in loads:
            is_misplaced = load.align > 1 and (load.start - load.address) % load.align
            if load.start + load.size > size or load.size > load.memory or is_misplaced:
                return True
        if not loads:
            return True
        filled_spans = _read_table_spans(file, elf)
        hole = file.hole(0)
        if not is_thorough and hole is None:
            return False
        filled_spans += _find_code_spans(elf, size)
        return _has_empty_page(file, filled_spans) or _has_hole(file, hole, filled_spans)
    except (DamagedElf, struct.error):
        return True


def _read_table_spans(file: OpenFile, elf: Elf) -> list[_Span]:
    """The tables that the loader reads, in which no page is empty; DamagedElf if one begins wrongly."""
    tags = elf.tags
    if not any(segment.kind == parts.DYNAMIC and segment.size for segment in elf.segments):
        return []
    if parts.TEXTS not in tags or parts.SYMBOLS not in tags:
        raise DamagedElf("DT_SYMTAB")
    # A string table begins and ends with a NUL; the names of needed libraries are in it.
    texts = _Span(elf.offset(tags[parts.TEXTS][0]), tags.get(parts.TEXTS_SIZE, [1])[0])
    if file.read(texts.start, 1) != b"\0" or file.read(texts.start + texts.size - 1, 1) != b"\0":
        raise DamagedElf("DT_STRTAB")
    for name_offset in tags.get(parts.NEEDED, [])[:1]:
        if name_offset >= texts.size or file.read(texts.start + name_offset, 1) in (b"", b"\0"):
            raise DamagedElf("DT_NEEDED")
    if parts.GNU_HASH in tags:
        # The header of the hash table, and the symbols before the first one that it contains.
        hashes, symbols = elf.offset(tags[parts.GNU_HASH][0]), elf.offset(tags[parts.SYMBOLS][0])
        buckets, first, words, _shift = struct.unpack("<4I", file.read(hashes, 16))
        if not buckets or not words or words & (words - 1):
            raise DamagedElf("DT_GNU_HASH")
        if first > 1:
            _check_filled(file.read(symbols + _SYMBOL, min((first - 1) * _SYMBOL, PAGE)))
    for address in filter(None, (*tags.get(parts.INIT, ()), *tags.get(parts.FINI, ()))):
        _check_filled(file.read(elf.offset(address), 4))
    spans = [texts]
    for table, length in _RELOCATIONS:
        if table in tags and tags.get(length, [0])[0] >= _SPAN_BYTES:
            span = _Span(elf.offset(tags[table][0]), tags[length][0])
            _check_filled(file.read(span.start, _SPAN_BYTES))
            spans.append(span)
    return spans


def _check_filled(part: bytes) -> None:
    if not part.strip(b"\0"):
        raise DamagedElf("zeros")


def _find_code_spans(elf: Elf, size: int) -> Iterator[_Span]:
    """Yield the sections that contain code; none if the file has no usable section table."""
    start, entry_size, count = elf.header.sections, elf.header.section_size, elf.header.section_count
    if not start or entry_size != _SECTION or count > MAX_ENTRIES or start + entry_size * count > size:
        return
    for section in elf.sections():
        is_beyond_end = section.start + section.size > size
        if section.align & (section.align - 1) or (section.kind not in (_NULL, _NOBITS) and is_beyond_end):
            raise DamagedElf(
                "sh_offset"
            )  # bytes were inserted or lost before the table, as by a text-mode copy
        if section.kind == _PROGBITS and section.flags & _EXECUTABLE:
            yield _Span(section.start, section.size)


def _has_empty_page(file: OpenFile, filled_spans: Sequence[_Span]) -> bool:
    """Whether a page is all zeros, among samples at equal distances with the first and the last page."""
    for span in filled_spans:
        first, end = _whole_pages(span)
        if end - first < PAGE:
            continue
        number = min(MAX_SAMPLES, 2 + span.size // SAMPLE_DISTANCE)
        distance = end - PAGE - first
        for offset in sorted(
            {first + distance * index // (number - 1) // PAGE * PAGE for index in range(number)}
        ):
            if not file.read(offset, PAGE).strip(b"\0"):
                return True
    return False


def _whole_pages(span: _Span) -> tuple[int, int]:
    """The start of the first whole page in a span, and the end of the last."""
    return -(-span.start // PAGE) * PAGE, (span.start + span.size) // PAGE * PAGE


def _has_hole(file: OpenFile, hole: Optional[tuple[int, int]], filled_spans: Sequence[_Span]) -> bool:
    """Whether a page of these spans lies in a hole of the file; `hole`: the first hole.

    Holes elsewhere are fine: `cp --sparse` leaves out zeros, which data of a library may contain.
    """
    for _number in range(MAX_ENTRIES):
        if hole is None:
            return False
        for first, end in map(_whole_pages, filled_spans):
            if min(end, hole[1]) - max(first, hole[0]) >= PAGE:
                return True
        hole = file.hole(hole[1])
    return False
