"""ELF files, read by their parts: headers, segments, dynamic section, versions, symbols. Nothing is loaded.

The only reader of them. A part is read when it is asked for: some dozen pages of a library of 100 MB. Read,
and not mapped: a library that is cut short while it is mapped, as `cp` onto it does, ends the whole process
with SIGBUS. Nothing here trusts the file: every count is bounded, and what no linker writes raises Damaged.
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
MOST = 4096  # headers, tags, versions of one file
MOST_BYTES = 64 << 20  # of one file; symbol names of the largest libraries take some 30 MiB
_LONGEST = 1 << 16  # of a name; those of C++ templates pass 4096

# As `ldconfig` and the folders of Debian call them. A machine that is not here is its number.
_MACHINES = {3: "i386", 21: "ppc64", 22: "s390", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
SHARED = 3
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
_WRITABLE = 2
NEEDED, HASH, TEXTS, SYMBOLS, TEXTS_SIZE, INIT, FINI = 1, 4, 5, 6, 10, 12, 13
SONAME, RPATH, RUNPATH = 14, 15, 29
GNU_HASH, DEPAUDIT, AUDIT, FLAGS_1 = 0x6FFFFEF5, 0x6FFFFEFB, 0x6FFFFEFC, 0x6FFFFFFB
AUXILIARY, FILTER = 0x7FFFFFFD, 0x7FFFFFFF
_VERDEF, _VERDEF_COUNT, _VERNEED, _VERNEED_COUNT = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_DYNSYM = 11
_UNDEFINED, _LOCAL, _WEAK = 0, 0, 2


class Damaged(Exception):
    """What no linker writes, and no loader gets through; one or two words of the format name it."""


class Header(NamedTuple):
    """What of the file's first bytes leads on: where the tables of segments and sections are."""

    kind: int
    machine: int
    segments: int
    sections: int
    segment_size: int
    segment_count: int
    section_size: int
    section_count: int
    names: int


class Segment(NamedTuple):
    """A part of the file, and where it lies in memory. `size` is that in the file."""

    kind: int
    flags: int
    start: int
    address: int
    size: int
    memory: int
    align: int


class Section(NamedTuple):
    """A part of the file as the linker knew it. The loader looks at none, and some tools strip them."""

    name: int
    kind: int
    flags: int
    start: int
    size: int
    link: int
    align: int


def machine_number(head: bytes) -> Optional[int]:
    """The machine in the first bytes of an ELF file; None for what is none."""
    if len(head) < 20 or not head.startswith(MAGIC):
        return None
    return int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")


class Elf:
    """One ELF file. `read(start, size)` gives its bytes, fewer at its end; `size` is how many it has."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, path: str = "") -> None:
        self._read, self._size, self._path = read, size, path
        self._pages: dict[int, bytes] = {}
        self._left = MOST_BYTES
        head = self.part(0, 64)
        if not head.startswith(MAGIC) or head[4:5] not in (b"\1", b"\2") or head[5:6] not in (b"\1", b"\2"):
            raise Damaged("e_ident")
        self.wide, self.order = head[4] == 2, "<" if head[5] == 1 else ">"
        self.bits = 64 if self.wide else 32
        self._row = 24 if self.wide else 16  # bytes of a symbol
        words = "QQQ" if self.wide else "III"
        kind, machine, _version, _entry, segments, sections, _flags, _size, *sizes = self._unpack(
            f"HHI{words}I6H", 16
        )
        self.header = Header(kind, machine, segments, sections, *sizes)
        self.machine = _MACHINES.get(machine, str(machine))

    def part(self, start: int, size: int) -> bytes:
        """Bytes of the file; fewer where it ends before. CannotTell beyond MOST_BYTES in all."""
        end = min(self._size, start + size)
        if end <= start:
            return b""
        first, last = start // PAGE, (end - 1) // PAGE
        if last - first > 16:
            return self._read_new(start, end - start)
        for number in range(first, last + 1):
            if number not in self._pages:
                self._pages[number] = self._read_new(number * PAGE, PAGE)
        if first == last:
            return self._pages[first][start - first * PAGE : end - first * PAGE]
        pages = b"".join([self._pages[number] for number in range(first, last + 1)])
        return pages[start - first * PAGE : end - first * PAGE]

    @cached_property
    def segments(self) -> list[Segment]:
        """All program headers."""
        head = self.header
        # Where it lies in real memory is left out, and 32 bits have the flags behind.
        rows = self._table(
            "IIQQ8xQQQ" if self.wide else "III4x4I", head.segments, head.segment_size, head.segment_count
        )
        if self.wide:
            return [Segment._make(row) for row in rows]
        return [Segment._make((row[0], row[5], *row[1:5], row[6])) for row in rows]

    @cached_property
    def _loaded(self) -> list[tuple[int, int, int]]:
        """Of what lies in memory: where in the file, where in memory, how much."""
        return [(part.start, part.address, part.size) for part in self.segments if part.kind == LOAD]

    @cached_property
    def tags(self) -> dict[int, list[int]]:
        """The dynamic section: the values of each tag."""
        tags: dict[int, list[int]] = {}
        shape = struct.Struct(f"{self.order}{'QQ' if self.wide else 'II'}")
        for segment in self.segments:
            if segment.kind == DYNAMIC:
                table = self.part(segment.start, min(segment.size, MOST * shape.size))
                for tag, value in shape.iter_unpack(table[: len(table) // shape.size * shape.size]):
                    if not tag:
                        break
                    tags.setdefault(tag, []).append(value)
        return tags

    def offset(self, address: int) -> int:
        """Where in the file an address of memory lies."""
        for start, at, size in self._loaded:
            if at <= address < at + size:
                return start + address - at
        raise Damaged(f"no segment holds {address:#x}")

    def text(self, tag: int) -> Optional[str]:
        """The first text of a tag such as SONAME."""
        return next(iter(self.texts(tag)), None)

    def texts(self, tag: int) -> list[str]:
        """All texts of a tag such as NEEDED."""
        return [self._read_name(at) for at in self.tags.get(tag, ())]

    def interpreter(self) -> Optional[str]:
        """The loader that a program asks for."""
        return next(
            (self._text(segment.start) for segment in self.segments if segment.kind == INTERPRETER), None
        )

    def sizes(self) -> tuple[int, int]:
        """Bytes of address space from its first segment to its last, and of the segments to be written."""
        loaded = [segment for segment in self.segments if segment.kind == LOAD]
        end = max((segment.address + segment.memory for segment in loaded), default=0)
        writable = sum(segment.memory for segment in loaded if segment.flags & _WRITABLE)
        return end - min((segment.address for segment in loaded), default=0), writable

    def wants(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """For each library that it needs, the versions that it wants of it."""
        wants, left = [], MOST
        for at, (_version, count, file, inside, _next) in self._chain(_VERNEED, _VERNEED_COUNT, "HHIII"):
            names, place = [], at + inside
            for _number in range(min(count, left)):
                _hash, _flags, _other, name, step = self._unpack("IHHII", place)
                names.append(self._read_name(name))
                place += step
            left -= len(names)
            wants.append((self._read_name(file), tuple(names)))
        return tuple(wants)

    def defines(self) -> tuple[str, ...]:
        """The versions that it offers."""
        return tuple(
            self._read_name(self._unpack("II", at + fields[5])[0])
            for at, fields in self._chain(_VERDEF, _VERDEF_COUNT, "HHHHIII")
            if fields[3]
        )

    def sections(self) -> list[Section]:
        """All sections; none where they were stripped."""
        # Left out: the address, further information, the size of an entry.
        shape = "IIQ8xQQI4xQ8x" if self.wide else "III4xIII4xI4x"
        rows = self._table(shape, self.header.sections, self.header.section_size, self.header.section_count)
        return [Section._make(row) for row in rows]

    def section(self, name: str) -> Optional[bytes]:
        """The content of the section of this name; None when there is none, as in a stripped library."""
        sections = self.sections()
        if not sections:
            return None
        if self.header.names >= len(sections):
            raise Damaged("e_shstrndx")
        at = sections[self.header.names].start
        for section in sections:
            if self.part(at + section.name, len(name) + 1) == name.encode() + b"\0":
                return self.part(section.start, section.size)
        return None

    def symbols(self) -> Optional[tuple[set[str], set[str]]]:
        """The names that it offers, and those it wants of others: all of a table of 100 000 rows.
        None where there is no table whose length can be told."""
        table = self._symbol_table()
        if table is None:
            return None
        defined, wanted = set[str](), set[str]()
        start, size, texts, texts_size = table
        names = self.part(texts, texts_size)
        for name, info, index in self._symbol_rows(start, size):
            text = names[name : names.find(b"\0", name)].decode("utf-8", "replace")
            if index != _UNDEFINED:
                defined.add(text)
            elif info >> 4 not in (_LOCAL, _WEAK):
                wanted.add(text)
        return defined, wanted

    def read_wanted(self) -> set[str]:
        """The names that it wants of others. A linker puts them before all symbols that the hash table of GNU
        holds, so of a library the rest is not read. In a program a function of others may stand behind."""
        start, size, texts, _texts_size = self._symbol_table() or (0, 0, 0, 0)
        if GNU_HASH in self.tags and self.interpreter() is None:
            at = self.offset(self.tags[GNU_HASH][0])
            _buckets, first, words, _shift = self._unpack("4I", at)
            # GNU ld writes 1 as the first where nothing is offered, whatever is wanted: then its filter is 0.
            if words > 1 or self._unpack("Q" if self.wide else "I", at + 16)[0]:
                size = min(size, first * self._row)
        return {
            self._text(texts + name, "replace")
            for name, info, index in self._symbol_rows(start, size)
            if index == _UNDEFINED and info >> 4 not in (_LOCAL, _WEAK)
        }

    def exports(self, names: Iterable[str]) -> Optional[set[str]]:
        """Those of the names that it offers, looked up as the loader does, by one of its hash tables.
        None where it has none, nor a table of symbols."""
        has = self._by_gnu_hash if GNU_HASH in self.tags else self._by_hash if HASH in self.tags else None
        if has is not None:
            return {name for name in names if has(name.encode("utf-8", "surrogateescape"))}
        symbols = self.symbols()
        return None if symbols is None else symbols[0].intersection(names)

    def _by_gnu_hash(self, name: bytes) -> bool:
        at = self.offset(self.tags[GNU_HASH][0])
        buckets, first, words, shift = self._unpack("4I", at)
        if not buckets or not words:
            raise Damaged("DT_GNU_HASH")
        number = 5381
        for letter in name:
            number = (number * 33 + letter) & 0xFFFFFFFF
        word = at + 16 + number // self.bits % words * (self.bits // 8)
        (bloom,) = self._unpack("Q" if self.wide else "I", word)
        if not (bloom >> number % self.bits) & (bloom >> (number >> shift) % self.bits) & 1:
            return False  # most of what a library does not have is told from by these bits
        table = at + 16 + words * (self.bits // 8)
        (index,) = self._unpack("I", table + number % buckets * 4)
        chains = table + buckets * 4
        for place in range(index, index + MOST) if index >= first else ():
            (link,) = self._unpack("I", chains + (place - first) * 4)
            if (link ^ number) < 2 and self._is_offered(place, name):
                return True
            if link & 1:
                break
        return False

    def _by_hash(self, name: bytes) -> bool:
        number = 0
        for letter in name:
            number = (number << 4) + letter
            number = (number ^ (number >> 24 & 0xF0)) & 0x0FFFFFFF
        at = self.offset(self.tags[HASH][0])
        buckets, count = self._unpack("2I", at)
        if not buckets:
            raise Damaged("DT_HASH")
        (index,) = self._unpack("I", at + 8 + number % buckets * 4)
        for _number in range(MOST):  # a chain may lead in a circle
            if not index or index >= count:
                return False
            if self._is_offered(index, name):
                return True
            (index,) = self._unpack("I", at + 8 + (buckets + index) * 4)
        return False

    def _symbol_table(self) -> Optional[tuple[int, int, int, int]]:
        """Where the symbols are and their names, each with its size. By the sections, which tell that at
        once; else by a hash table: the old kind counts the symbols, that of GNU ends with the last."""
        sections = self.sections()
        for section in sections:
            if section.kind == _DYNSYM:
                if section.link >= len(sections):
                    raise Damaged("sh_link")
                names = sections[section.link]
                return section.start, section.size, names.start, names.size
        if SYMBOLS not in self.tags or not (HASH in self.tags or GNU_HASH in self.tags):
            return None
        if HASH in self.tags:
            (count,) = self._unpack("I", self.offset(self.tags[HASH][0]) + 4)
        else:
            at = self.offset(self.tags[GNU_HASH][0])
            buckets, count, words, _shift = self._unpack("4I", at)  # those before the first in it, at least
            at += 16 + words * self.bits // 8
            firsts = struct.iter_unpack(f"{self.order}I", self.part(at, buckets * 4))
            last = max((number for (number,) in firsts), default=0)
            for index in range(last, last + MOST) if last >= count else ():
                if self._unpack("I", at + (buckets + index - count) * 4)[0] & 1:
                    count = index + 1
                    break
        start, texts = self.offset(self.tags[SYMBOLS][0]), self.offset(self.tags.get(TEXTS, [0])[0])
        return start, count * self._row, texts, self.tags.get(TEXTS_SIZE, [0])[0]

    def _is_offered(self, index: int, name: bytes) -> bool:
        """Whether the symbol of this number has this name, and is here and no other library's."""
        at = self.offset(self.tags.get(SYMBOLS, [0])[0]) + index * self._row
        for place, _info, owner in self._symbol_rows(at, self._row):
            texts = self.offset(self.tags.get(TEXTS, [0])[0])
            return owner != _UNDEFINED and self.part(texts + place, len(name) + 1) == name + b"\0"
        raise Damaged("DT_SYMTAB")

    def _symbol_rows(self, start: int, size: int) -> Iterator[tuple[int, int, int]]:
        """Where the name of each symbol is, its kind, and the section that has it."""
        shape = struct.Struct(f"{self.order}{'IBBH16x' if self.wide else 'I8xBBH'}")
        table = self.part(start, size)
        for name, info, _other, index in shape.iter_unpack(table[: len(table) // shape.size * shape.size]):
            yield name, info, index

    def _table(self, shape: str, start: int, step: int, count: int) -> list[tuple[int, ...]]:
        """The rows of a table of headers, which is read at once: a check looks at some 150 libraries."""
        row, count = struct.Struct(f"{self.order}{shape}"), min(MOST, count)
        if not count:
            return []
        if not row.size <= step <= PAGE:
            raise Damaged("e_phentsize, e_shentsize")
        content = self.part(start, step * count)
        if len(content) < step * count:
            raise Damaged(f"ends before {start + step * count:#x}")
        return [row.unpack_from(content, place) for place in range(0, step * count, step)]

    def _chain(self, tag: int, counted: int, shape: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The entries of a list in the file, each of which ends with how far the next one is."""
        if tag not in self.tags:
            return
        at = self.offset(self.tags[tag][0])
        for _number in range(min(MOST, *self.tags.get(counted, [0]))):
            fields = self._unpack(shape, at)
            yield at, fields
            at += fields[-1]

    def _unpack(self, shape: str, at: int) -> tuple[int, ...]:
        form = f"{self.order}{shape}"
        size = struct.calcsize(form)
        content = self.part(at, size)
        if len(content) < size:
            raise Damaged(f"ends before {at + size:#x}")
        return struct.unpack(form, content)

    def _read_name(self, at: int) -> str:
        """A text of the dynamic section, by where it stands in its texts."""
        return self._text(self.offset(self.tags.get(TEXTS, [0])[0]) + at)

    def _text(self, start: int, errors: str = "surrogateescape") -> str:
        text = b""
        while not text.endswith(b"\0"):
            at = start + len(text)
            page = self.part(at, PAGE - at % PAGE)
            if not page or len(text) > _LONGEST:
                raise Damaged(f"no end of the text at {start:#x}")
            text += page.partition(b"\0")[0] + b"\0" * (b"\0" in page)
        return text[:-1].decode("utf-8", errors)

    def _read_new(self, start: int, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            raise CannotTell(_("{path} has a table that is too large to read", path=self._path))
        return self._read(start, size)
