"""Parses ELF files: headers, segments, dynamic section, versions, symbols. Nothing is loaded.

Each part is read when it is asked for: a dozen pages of a library of 100 MB. The file is read, not mapped: if
a mapped library is cut short, as `cp` onto it does, SIGBUS ends the whole process. Nothing here trusts the
file: every count is bounded, and what no linker writes raises DamagedElf.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Callable, NamedTuple, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _

MAGIC = b"\x7fELF"
PAGE = 4096
MAX_ENTRIES = 4096  # headers, tags or versions of one file
MAX_BYTES = 64 << 20  # read from one file; the symbol names of the largest libraries take some 30 MiB
_MAX_NAME_BYTES = 1 << 16  # mangled names of C++ templates are longer than 4096

# e_machine, by the names of `ldconfig` and of Debian's folders. Others are named by their number.
_MACHINES = {3: "i386", 21: "ppc64", 22: "s390", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
SHARED = 3  # ET_DYN
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3  # PT_LOAD, PT_DYNAMIC, PT_INTERP
_WRITABLE = 2  # PF_W
# Tags of the dynamic section, DT_*, by the names of elf.h without their prefix; TEXTS is DT_STRTAB.
NEEDED, HASH, TEXTS, SYMBOLS, TEXTS_SIZE, INIT, FINI = 1, 4, 5, 6, 10, 12, 13
SONAME, RPATH, RUNPATH = 14, 15, 29
GNU_HASH, DEPAUDIT, AUDIT, FLAGS_1 = 0x6FFFFEF5, 0x6FFFFEFB, 0x6FFFFEFC, 0x6FFFFFFB
AUXILIARY, FILTER = 0x7FFFFFFD, 0x7FFFFFFF
_VERDEF, _VERDEF_COUNT, _VERNEED, _VERNEED_COUNT = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_DYNSYM = 11  # SHT_DYNSYM
_UNDEFINED, _LOCAL, _WEAK = 0, 0, 2  # SHN_UNDEF, STB_LOCAL, STB_WEAK


class DamagedElf(Exception):
    """The file has what no linker writes and no loader accepts; the text names the field of the format."""


class Header(NamedTuple):
    """The fields of the ELF header that are needed: where the tables of segments and sections are."""

    kind: int
    machine: int
    segments: int
    sections: int
    segment_size: int
    segment_count: int
    section_size: int
    section_count: int
    names: int


class ElfSegment(NamedTuple):
    """A program header: a part of the file (`start`, `size`) and where it lies in memory (`address`,
    `memory` bytes)."""

    kind: int
    flags: int
    start: int
    address: int
    size: int
    memory: int
    align: int


class Section(NamedTuple):
    """A section header. The loader does not use sections, and strip may remove their table."""

    name: int
    kind: int
    flags: int
    start: int
    size: int
    link: int
    align: int


def machine_number(head: bytes) -> Optional[int]:
    """e_machine in the first bytes of an ELF file; None if it is not one."""
    if len(head) < 20 or not head.startswith(MAGIC):
        return None
    return int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")


class Elf:
    """One ELF file. `read(start, size)` returns its bytes, fewer at its end; `size` is its length.

    Every method may raise DamagedElf, and CannotTell once MAX_BYTES have been read.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, path: str = "") -> None:
        self._read, self._size, self._path = read, size, path
        self._pages: dict[int, bytes] = {}
        self._bytes_left = MAX_BYTES
        head = self.read_part(0, 64)
        if not head.startswith(MAGIC) or head[4:5] not in (b"\1", b"\2") or head[5:6] not in (b"\1", b"\2"):
            raise DamagedElf("e_ident")
        self.is_64_bit, self.order = head[4] == 2, "<" if head[5] == 1 else ">"
        self.bits = 64 if self.is_64_bit else 32
        self._symbol_size = 24 if self.is_64_bit else 16  # bytes of a symbol
        words = "QQQ" if self.is_64_bit else "III"
        kind, machine, _version, _entry, segments, sections, _flags, _size, *sizes = self._unpack(
            f"HHI{words}I6H", 16
        )
        self.header = Header(kind, machine, segments, sections, *sizes)
        self.machine = _MACHINES.get(machine, str(machine))

    def read_part(self, start: int, size: int) -> bytes:
        """Bytes of the file; fewer where it ends before. CannotTell beyond MOST_BYTES in all."""
        end = min(self._size, start + size)
        if end <= start:
            return b""
        first, last = start // PAGE, (end - 1) // PAGE
        # Large tables are read at once and not kept: the cache of pages is for small reads.
        if last - first > 16:
            return self._read_uncached(start, end - start)
        for number in range(first, last + 1):
            if number not in self._pages:
                self._pages[number] = self._read_uncached(number * PAGE, PAGE)
        if first == last:
            return self._pages[first][start - first * PAGE : end - first * PAGE]
        pages = b"".join([self._pages[number] for number in range(first, last + 1)])
        return pages[start - first * PAGE : end - first * PAGE]

    @cached_property
    def segments(self) -> list[ElfSegment]:
        """All program headers."""
        head = self.header
        # p_paddr is left out. In 32-bit files p_flags comes after the sizes, in 64-bit ones after p_type.
        rows = self._read_headers(
            "IIQQ8xQQQ" if self.is_64_bit else "III4x4I", head.segments, head.segment_size, head.segment_count
        )
        if self.is_64_bit:
            return [ElfSegment._make(row) for row in rows]
        return [ElfSegment._make((row[0], row[5], *row[1:5], row[6])) for row in rows]

    @cached_property
    def _loaded_spans(self) -> list[tuple[int, int, int]]:
        """(offset in the file, address, size in the file) of each loaded segment."""
        return [(part.start, part.address, part.size) for part in self.segments if part.kind == LOAD]

    @cached_property
    def tags(self) -> dict[int, list[int]]:
        """The values of each tag of the dynamic section."""
        tags: dict[int, list[int]] = {}
        shape = struct.Struct(f"{self.order}{'QQ' if self.is_64_bit else 'II'}")
        for segment in self.segments:
            if segment.kind == DYNAMIC:
                table = self.read_part(segment.start, min(segment.size, MAX_ENTRIES * shape.size))
                for tag, value in shape.iter_unpack(table[: len(table) // shape.size * shape.size]):
                    if not tag:
                        break
                    tags.setdefault(tag, []).append(value)
        return tags

    def offset(self, address: int) -> int:
        """The offset in the file of an address in memory."""
        for start, segment_address, size in self._loaded_spans:
            if segment_address <= address < segment_address + size:
                return start + address - segment_address
        raise DamagedElf(f"no segment holds {address:#x}")

    def read_tag_text(self, tag: int) -> Optional[str]:
        """The first text of a tag such as SONAME."""
        return next(iter(self.read_tag_texts(tag)), None)

    def read_tag_texts(self, tag: int) -> list[str]:
        """All texts of a tag such as NEEDED."""
        return [self._read_name(offset) for offset in self.tags.get(tag, ())]

    def interpreter(self) -> Optional[str]:
        """The path of the loader that a program asks for (PT_INTERP); None for a library."""
        return next(
            (self._read_text(segment.start) for segment in self.segments if segment.kind == INTERPRETER), None
        )

    def sizes(self) -> tuple[int, int]:
        """The bytes of address space from the first segment to the last, and of the writable segments."""
        loaded = [segment for segment in self.segments if segment.kind == LOAD]
        end = max((segment.address + segment.memory for segment in loaded), default=0)
        writable = sum(segment.memory for segment in loaded if segment.flags & _WRITABLE)
        return end - min((segment.address for segment in loaded), default=0), writable

    def required_versions(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """For each needed library the versions that it must define, as (name, ("GLIBC_2.17", ...))."""
        required, remaining = [], MAX_ENTRIES
        for offset, (_version, count, file, first_offset, _next) in self._walk_entries(
            _VERNEED, _VERNEED_COUNT, "HHIII"
        ):
            names, entry_offset = [], offset + first_offset
            for _number in range(min(count, remaining)):
                _hash, _flags, _other, name, step = self._unpack("IHHII", entry_offset)
                names.append(self._read_name(name))
                entry_offset += step
            remaining -= len(names)
            required.append((self._read_name(file), tuple(names)))
        return tuple(required)

    def defined_versions(self) -> tuple[str, ...]:
        """The versions that this library defines."""
        return tuple(
            self._read_name(self._unpack("II", offset + fields[5])[0])
            for offset, fields in self._walk_entries(_VERDEF, _VERDEF_COUNT, "HHHHIII")
            if fields[3]
        )

    def sections(self) -> list[Section]:
        """All sections; empty if their table was stripped."""
        # Left out: sh_addr, sh_info and sh_entsize.
        shape = "IIQ8xQQI4xQ8x" if self.is_64_bit else "III4xIII4xI4x"
        rows = self._read_headers(
            shape, self.header.sections, self.header.section_size, self.header.section_count
        )
        return [Section._make(row) for row in rows]

    def section(self, name: str) -> Optional[bytes]:
        """The content of the section of this name; None if there is none, as in a stripped library."""
        sections = self.sections()
        if not sections:
            return None
        if self.header.names >= len(sections):
            raise DamagedElf("e_shstrndx")
        names_offset = sections[self.header.names].start
        for section in sections:
            if self.read_part(names_offset + section.name, len(name) + 1) == name.encode() + b"\0":
                return self.read_part(section.start, section.size)
        return None

    def symbols(self) -> Optional[tuple[set[str], set[str]]]:
        """The names that the file defines, and those that others must define; None without a symbol table.

        This reads the whole table, which may have 100 000 rows.
        """
        table = self._locate_symbols()
        if table is None:
            return None
        defined, undefined = set[str](), set[str]()
        start, size, texts, texts_size = table
        names = self.read_part(texts, texts_size)
        for name, info, index in self._read_symbols(start, size):
            text = names[name : names.find(b"\0", name)].decode("utf-8", "replace")
            if index != _UNDEFINED:
                defined.add(text)
            elif info >> 4 not in (_LOCAL, _WEAK):
                undefined.add(text)
        return defined, undefined

    def read_undefined(self) -> set[str]:
        """The names that others must define.

        A linker puts undefined symbols before those of the GNU hash table, so of a library only the first
        part is read. In a program an undefined function may follow, if its address is taken.
        """
        start, size, texts, _texts_size = self._locate_symbols() or (0, 0, 0, 0)
        if GNU_HASH in self.tags and self.interpreter() is None:
            hash_offset = self.offset(self.tags[GNU_HASH][0])
            _buckets, first_hashed, words, _shift = self._unpack("4I", hash_offset)
            # If nothing is defined GNU ld writes 1 as the first hashed symbol, however many are undefined;
            # its bloom filter is 0 then.
            if words > 1 or self._unpack("Q" if self.is_64_bit else "I", hash_offset + 16)[0]:
                size = min(size, first_hashed * self._symbol_size)
        return {
            self._read_text(texts + name, "replace")
            for name, info, index in self._read_symbols(start, size)
            if index == _UNDEFINED and info >> 4 not in (_LOCAL, _WEAK)
        }

    def exports(self, names: Iterable[str]) -> Optional[set[str]]:
        """Those of the names that the file defines, by its hash table, as the loader looks them up.

        None if it has neither a hash table nor a symbol table.
        """
        has_symbol = (
            self._has_by_gnu_hash
            if GNU_HASH in self.tags
            else self._has_by_hash
            if HASH in self.tags
            else None
        )
        if has_symbol is not None:
            return {name for name in names if has_symbol(name.encode("utf-8", "surrogateescape"))}
        symbols = self.symbols()
        return None if symbols is None else symbols[0].intersection(names)

    def _has_by_gnu_hash(self, name: bytes) -> bool:
        hash_offset = self.offset(self.tags[GNU_HASH][0])
        buckets, first_hashed, words, shift = self._unpack("4I", hash_offset)
        if not buckets or not words:
            raise DamagedElf("DT_GNU_HASH")
        name_hash = 5381  # dl_new_hash of glibc: h * 33 + c
        for letter in name:
            name_hash = (name_hash * 33 + letter) & 0xFFFFFFFF
        word = hash_offset + 16 + name_hash // self.bits % words * (self.bits // 8)
        (bloom,) = self._unpack("Q" if self.is_64_bit else "I", word)
        if not (bloom >> name_hash % self.bits) & (bloom >> (name_hash >> shift) % self.bits) & 1:
            return False  # the bloom filter rejects most names that a library does not define
        table = hash_offset + 16 + words * (self.bits // 8)
        (index,) = self._unpack("I", table + name_hash % buckets * 4)
        chains = table + buckets * 4
        for symbol_index in range(index, index + MAX_ENTRIES) if index >= first_hashed else ():
            (link,) = self._unpack("I", chains + (symbol_index - first_hashed) * 4)
            if (link ^ name_hash) < 2 and self._is_defined(symbol_index, name):
                return True
            if link & 1:
                break
        return False

    def _has_by_hash(self, name: bytes) -> bool:
        name_hash = 0
        for letter in name:
            name_hash = (name_hash << 4) + letter
            name_hash = (name_hash ^ (name_hash >> 24 & 0xF0)) & 0x0FFFFFFF
        hash_offset = self.offset(self.tags[HASH][0])
        buckets, count = self._unpack("2I", hash_offset)
        if not buckets:
            raise DamagedElf("DT_HASH")
        (index,) = self._unpack("I", hash_offset + 8 + name_hash % buckets * 4)
        for _number in range(MAX_ENTRIES):  # a chain may lead in a circle
            if not index or index >= count:
                return False
            if self._is_defined(index, name):
                return True
            (index,) = self._unpack("I", hash_offset + 8 + (buckets + index) * 4)
        return False

    def _locate_symbols(self) -> Optional[tuple[int, int, int, int]]:
        """(offset, size) of the symbols and of their names, as four numbers; None if they cannot be found.

        By the section SHT_DYNSYM, which has the size. In a stripped file by a hash table: DT_HASH counts the
        symbols, in DT_GNU_HASH the last chain ends at the last symbol.
        """
        sections = self.sections()
        for section in sections:
            if section.kind == _DYNSYM:
                if section.link >= len(sections):
                    raise DamagedElf("sh_link")
                names = sections[section.link]
                return section.start, section.size, names.start, names.size
        if SYMBOLS not in self.tags or not (HASH in self.tags or GNU_HASH in self.tags):
            return None
        if HASH in self.tags:
            (count,) = self._unpack("I", self.offset(self.tags[HASH][0]) + 4)
        else:
            hash_offset = self.offset(self.tags[GNU_HASH][0])
            buckets, count, words, _shift = self._unpack(
                "4I", hash_offset
            )  # those before the first in it, at least
            hash_offset += 16 + words * self.bits // 8
            chain_starts = struct.iter_unpack(f"{self.order}I", self.read_part(hash_offset, buckets * 4))
            last = max((number for (number,) in chain_starts), default=0)
            for index in range(last, last + MAX_ENTRIES) if last >= count else ():
                if self._unpack("I", hash_offset + (buckets + index - count) * 4)[0] & 1:
                    count = index + 1
                    break
        start, texts = self.offset(self.tags[SYMBOLS][0]), self.offset(self.tags.get(TEXTS, [0])[0])
        return start, count * self._symbol_size, texts, self.tags.get(TEXTS_SIZE, [0])[0]

    def _is_defined(self, index: int, name: bytes) -> bool:
        """Whether the symbol of this index has this name and is defined in this file."""
        symbol_offset = self.offset(self.tags.get(SYMBOLS, [0])[0]) + index * self._symbol_size
        for name_offset, _info, section_index in self._read_symbols(symbol_offset, self._symbol_size):
            texts = self.offset(self.tags.get(TEXTS, [0])[0])
            return (
                section_index != _UNDEFINED
                and self.read_part(texts + name_offset, len(name) + 1) == name + b"\0"
            )
        raise DamagedElf("DT_SYMTAB")

    def _read_symbols(self, start: int, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield the offset of the name, st_info and the section index of each symbol."""
        shape = struct.Struct(f"{self.order}{'IBBH16x' if self.is_64_bit else 'I8xBBH'}")
        table = self.read_part(start, size)
        for name, info, _other, index in shape.iter_unpack(table[: len(table) // shape.size * shape.size]):
            yield name, info, index

    def _read_headers(self, shape: str, start: int, row_size: int, count: int) -> list[tuple[int, ...]]:
        """The rows of a table of headers, read at once: a check reads the tables of some 150 libraries."""
        row, count = struct.Struct(f"{self.order}{shape}"), min(MAX_ENTRIES, count)
        if not count:
            return []
        if not row.size <= row_size <= PAGE:
            raise DamagedElf("e_phentsize, e_shentsize")
        content = self.read_part(start, row_size * count)
        if len(content) < row_size * count:
            raise DamagedElf(f"ends before {start + row_size * count:#x}")
        return [row.unpack_from(content, place) for place in range(0, row_size * count, row_size)]

    def _walk_entries(self, tag: int, count_tag: int, shape: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the offset and fields of each entry of a list; the last field is the distance to the next."""
        if tag not in self.tags:
            return
        offset = self.offset(self.tags[tag][0])
        # The file's own count may lie.
        for _number in range(min(MAX_ENTRIES, *self.tags.get(count_tag, [0]))):
            fields = self._unpack(shape, offset)
            yield offset, fields
            offset += fields[-1]

    def _unpack(self, shape: str, offset: int) -> tuple[int, ...]:
        form = f"{self.order}{shape}"
        size = struct.calcsize(form)
        content = self.read_part(offset, size)
        if len(content) < size:
            raise DamagedElf(f"ends before {offset + size:#x}")
        return struct.unpack(form, content)

    def _read_name(self, name_offset: int) -> str:
        """The text at an offset in the string table of the dynamic section."""
        return self._read_text(self.offset(self.tags.get(TEXTS, [0])[0]) + name_offset)

    def _read_text(self, start: int, errors: str = "surrogateescape") -> str:
        text = b""
        # Page by page: a name is short, and the pages of a string table are used again.
        while not text.endswith(b"\0"):
            offset = start + len(text)
            page = self.read_part(offset, PAGE - offset % PAGE)
            if not page or len(text) > _MAX_NAME_BYTES:
                raise DamagedElf(f"no end of the text at {start:#x}")
            text += page.partition(b"\0")[0] + b"\0" * (b"\0" in page)
        return text[:-1].decode("utf-8", errors)

    def _read_uncached(self, start: int, size: int) -> bytes:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise CannotTell(_("{path} has a table that is too large to read", path=self._path))
        return self._read(start, size)
