"""Small ELF files of any machine, made without a compiler: as much of one as a loader's questions touch."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Optional

MACHINES = {"x86_64": 62, "aarch64": 183, "i386": 3}
LOAD, DYNAMIC, INTERP = 1, 2, 3
TAGS = {"needed": 1, "soname": 14, "rpath": 15, "runpath": 29}
HEADER, SEGMENT, SECTION = 64, 56, 64


class Strings:
    """A string table that grows."""

    def __init__(self) -> None:
        self.content = b"\0"

    def add(self, text: str) -> int:
        at = len(self.content)
        self.content += text.encode() + b"\0"
        return at


def library(
    *needed: str,
    soname: Optional[str] = None,
    rpath: Optional[str] = None,
    runpath: Optional[str] = None,
    machine: str = "x86_64",
    wants: Optional[Mapping[str, Sequence[str]]] = None,
    defines: Sequence[str] = (),
    exports: Sequence[str] = (),
    imports: Sequence[str] = (),
    interpreter: Optional[str] = None,
    rodata: bytes = b"",
    bits: int = 64,
    order: str = "<",
    hashes: Sequence[str] = (),
    stripped: bool = False,
) -> bytes:
    """A shared library (or, with an interpreter, a program). `wants`: versions by library; `rodata`: the
    content of that section; `order`: "<" or ">"; `hashes`: "gnu", "old" or both; `stripped`: no sections."""
    shape = _Shape(bits, order)
    strings = Strings()
    tags = [(TAGS["needed"], strings.add(name)) for name in needed]
    for kind, text in (("soname", soname), ("rpath", rpath), ("runpath", runpath)):
        if text is not None:
            tags.append((TAGS[kind], strings.add(text)))
    verneed, verdef = shape.verneed(strings, wants or {}), shape.verdef(strings, defines)
    # As linkers do: first what others have, then by the bucket of GNU's hash table.
    offered = sorted(exports, key=lambda name: gnu_hash(name) % BUCKETS) if "gnu" in hashes else exports
    ordered = [(name, 0) for name in imports] if hashes else []
    ordered += [(name, 1) for name in offered]
    ordered += [] if hashes else [(name, 0) for name in imports]
    dynsym = shape.symbols(strings, ordered)
    gnu = shape.gnu_table(offered, 1 + len(imports)) if "gnu" in hashes else b""
    old = shape.old_table([name for name, _index in ordered]) if "old" in hashes else b""
    named = strings.add(".rodata")
    first = shape.header + 3 * shape.segment_size
    first += -first % 8
    places, at = [], first
    program = (interpreter or "").encode() + b"\0"
    parts = (program, strings.content, verneed, verdef, dynsym, rodata, gnu, old)
    for part in parts:
        places.append(at)
        at += len(part) + -len(part) % 8
    tags += [(5, places[1]), (10, len(strings.content)), (6, places[4]), (11, shape.symbol_size)]
    if wants:
        tags += [(0x6FFFFFFE, places[2]), (0x6FFFFFFF, len(wants))]
    if defines:
        tags += [(0x6FFFFFFC, places[3]), (0x6FFFFFFD, len(defines))]
    tags += [(0x6FFFFEF5, places[6])] if gnu else []
    tags += [(4, places[7])] if old else []
    dynamic = b"".join(shape.pack("WW", tag, value) for tag, value in [*tags, (0, 0)])
    end = at + len(dynamic)
    segments = shape.segment(LOAD, 0, end) + shape.segment(DYNAMIC, at, len(dynamic))
    segments += shape.segment(INTERP if interpreter else 0, places[0], len(program))
    segments += b"\0" * (first - shape.header - len(segments))
    body = b"".join(part + b"\0" * (-len(part) % 8) for part in parts)
    sections = shape.section(0, 0, 0, 0, 0) + shape.section(3, places[1], len(strings.content), 0, 0)
    sections += shape.section(11, places[4], len(dynsym), 1, shape.symbol_size)
    sections += shape.section(1, places[5], len(rodata), 0, 0, named)
    where, count = (0, 0) if stripped else (end, 4)
    head = b"\x7fELF" + bytes((bits // 32, 1 if order == "<" else 2, 1)) + bytes(9)
    head += shape.pack("HHIWWWIHHHHHH", 3, MACHINES[machine], 1, 0, shape.header, where, 0, shape.header,
                       shape.segment_size, 3, shape.section_size, count, 1)  # fmt: skip
    return head + segments + body + dynamic + (b"" if stripped else sections)


def cache(paths: Mapping[str, str], machine: str = "x86_64", hwcap: int = 0) -> bytes:
    """An /etc/ld.so.cache that leads each name to its path."""
    flags = {"x86_64": 0x0303, "aarch64": 0x0A03}[machine]
    strings, rows, base = b"", b"", 48 + 24 * len(paths)
    for name, path in paths.items():
        key, value = base + len(strings), base + len(strings) + len(name) + 1
        strings += name.encode() + b"\0" + path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", flags, key, value, 0, hwcap)
    return b"glibc-ld.so.cache1.1" + struct.pack("<IIB19x", len(paths), len(strings), 2) + rows + strings


BUCKETS, SHIFT = 3, 6  # of GNU's hash table


def gnu_hash(name: str) -> int:
    number = 5381
    for letter in name.encode():
        number = (number * 33 + letter) % 2**32
    return number


def old_hash(name: str) -> int:
    number = 0
    for letter in name.encode():
        number = (number << 4) + letter
        high = number & 0xF0000000
        number = (number ^ high >> 24) & ~high
    return number


class _Shape:
    """How the parts of a file are written for a number of bits and an order of bytes."""

    def __init__(self, bits: int, order: str) -> None:
        self.bits, self.order = bits, order
        self.header, self.segment_size, self.section_size, self.symbol_size = (
            (64, 56, 64, 24) if bits == 64 else (52, 32, 40, 16)
        )

    def pack(self, shape: str, *values: int) -> bytes:
        """`W` is a word of this machine."""
        return struct.pack(self.order + shape.replace("W", "Q" if self.bits == 64 else "I"), *values)

    def segment(self, kind: int, start: int, size: int) -> bytes:
        if self.bits == 64:
            return self.pack("IIQQQQQQ", kind, 5, start, start, start, size, size, 8)
        return self.pack("8I", kind, start, start, start, size, size, 5, 8)

    def section(self, kind: int, start: int, size: int, link: int, each: int, name: int = 0) -> bytes:
        if not kind:
            return bytes(self.section_size)
        return self.pack("IIWWWWIIWW", name, kind, 2, start, start, size, link, 0, 8, each)

    def verneed(self, strings: Strings, wants: Mapping[str, Sequence[str]]) -> bytes:
        parts = b""
        for name, versions in wants.items():
            size = 16 + 16 * len(versions)
            parts += self.pack("HHIII", 1, len(versions), strings.add(name), 16, size)
            parts += b"".join(self.pack("IHHII", 0, 0, 2, strings.add(version), 16) for version in versions)
        return parts

    def verdef(self, strings: Strings, defines: Sequence[str]) -> bytes:
        return b"".join(
            self.pack("HHHHIII", 1, 0, number, 1, 0, 20, 28) + self.pack("II", strings.add(version), 0)
            for number, version in enumerate(defines, 1)
        )

    def symbols(self, strings: Strings, rows: Sequence[tuple[str, int]]) -> bytes:
        table = bytes(self.symbol_size)
        for name, index in rows:
            at = strings.add(name)
            if self.bits == 64:
                table += self.pack("IBBHQQ", at, 0x12, 0, index, 0, 0)
            else:
                table += self.pack("IIIBBH", at, 0, 0, 0x12, 0, index)
        return table

    def gnu_table(self, names: Sequence[str], first: int) -> bytes:
        """Of the names that it offers, in the order of their buckets; one word tells which there may be."""
        hashes = [gnu_hash(name) for name in names]
        bloom = 0
        for number in hashes:
            bloom |= 1 << number % self.bits | 1 << (number >> SHIFT) % self.bits
        inside: list[list[int]] = [[] for _bucket in range(BUCKETS)]
        for at, number in enumerate(hashes):
            inside[number % BUCKETS].append(at)
        lasts = {places[-1] for places in inside if places}
        table = self.pack("4I", BUCKETS, first if names else 1, 1, SHIFT) + self.pack("W", bloom)
        table += b"".join(self.pack("I", first + places[0] if places else 0) for places in inside)
        return table + b"".join(
            self.pack("I", number & ~1 | (at in lasts)) for at, number in enumerate(hashes)
        )

    def old_table(self, names: Sequence[str]) -> bytes:
        buckets, chains = [0] * BUCKETS, [0] * (len(names) + 1)
        for at, name in enumerate(names, 1):
            bucket = old_hash(name) % BUCKETS
            chains[at], buckets[bucket] = buckets[bucket], at
        values = (BUCKETS, len(chains), *buckets, *chains)
        return self.pack(f"{len(values)}I", *values)
