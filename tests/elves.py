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
) -> bytes:
    """A shared library (or, with an interpreter, a program) of 64 bits. `wants`: versions by library;
    `rodata`: the content of that section."""
    strings = Strings()
    tags = [(TAGS["needed"], strings.add(name)) for name in needed]
    for kind, text in (("soname", soname), ("rpath", rpath), ("runpath", runpath)):
        if text is not None:
            tags.append((TAGS[kind], strings.add(text)))
    verneed, verdef = _verneed(strings, wants or {}), _verdef(strings, defines)
    dynsym = _symbols(strings, exports, imports)
    named = strings.add(".rodata")
    first = HEADER + 3 * SEGMENT
    places, at = [], first
    program = (interpreter or "").encode() + b"\0"
    parts = (program, strings.content, verneed, verdef, dynsym, rodata)
    for part in parts:
        places.append(at)
        at += len(part) + -len(part) % 8
    tags += [(5, places[1]), (10, len(strings.content)), (6, places[4]), (11, 24)]
    if wants:
        tags += [(0x6FFFFFFE, places[2]), (0x6FFFFFFF, len(wants))]
    if defines:
        tags += [(0x6FFFFFFC, places[3]), (0x6FFFFFFD, len(defines))]
    dynamic = b"".join(struct.pack("<QQ", tag, value) for tag, value in [*tags, (0, 0)])
    end = at + len(dynamic)
    segments = _segment(LOAD, 0, end) + _segment(DYNAMIC, at, len(dynamic))
    segments += _segment(INTERP if interpreter else 0, places[0], len(program))
    body = b"".join(part + b"\0" * (-len(part) % 8) for part in parts)
    sections = bytes(SECTION) + _section(3, places[1], len(strings.content), 0, 0)
    sections += _section(11, places[4], len(dynsym), 1, 24)
    sections += _section(1, places[5], len(rodata), 0, 0, named)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, MACHINES[machine], 1, 0, HEADER, end, 0, 64, 56, 3, 64, 4, 1)
    return head + segments + body + dynamic + sections


def cache(paths: Mapping[str, str], machine: str = "x86_64", hwcap: int = 0) -> bytes:
    """An /etc/ld.so.cache that leads each name to its path."""
    flags = {"x86_64": 0x0303, "aarch64": 0x0A03}[machine]
    strings, rows, base = b"", b"", 48 + 24 * len(paths)
    for name, path in paths.items():
        key, value = base + len(strings), base + len(strings) + len(name) + 1
        strings += name.encode() + b"\0" + path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", flags, key, value, 0, hwcap)
    return b"glibc-ld.so.cache1.1" + struct.pack("<IIB19x", len(paths), len(strings), 2) + rows + strings


def _verneed(strings: Strings, wants: Mapping[str, Sequence[str]]) -> bytes:
    parts = b""
    for name, versions in wants.items():
        size = 16 + 16 * len(versions)
        parts += struct.pack("<HHIII", 1, len(versions), strings.add(name), 16, size)
        parts += b"".join(struct.pack("<IHHII", 0, 0, 2, strings.add(one), 16) for one in versions)
    return parts


def _verdef(strings: Strings, defines: Sequence[str]) -> bytes:
    return b"".join(
        struct.pack("<HHHHIII", 1, 0, number, 1, 0, 20, 28) + struct.pack("<II", strings.add(one), 0)
        for number, one in enumerate(defines, 1)
    )


def _symbols(strings: Strings, exports: Sequence[str], imports: Sequence[str]) -> bytes:
    rows = [(strings.add(name), 1) for name in exports] + [(strings.add(name), 0) for name in imports]
    return bytes(24) + b"".join(struct.pack("<IBBHQQ", name, 0x12, 0, index, 0, 0) for name, index in rows)


def _segment(kind: int, start: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, 5, start, start, start, size, size, 8)


def _section(kind: int, start: int, size: int, link: int, each: int, name: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 2, start, start, size, link, 0, 8, each)
