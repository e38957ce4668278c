"""Parses /etc/ld.so.cache, in which the loader looks up the system's libraries."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from npudoctor.core.errors import CannotTell
from npudoctor.host.fs.files import Files

CACHE = "/etc/ld.so.cache"
MAX_CACHE_BYTES = 32 << 20
MAGIC = b"glibc-ld.so.cache1.1"
OLD_MAGIC = b"ld.so-1.7.0"

_HEADER = 48
_MAX_PATH_BYTES = 4096  # PATH_MAX of the kernel
# FLAG_ELF_LIBC6 (3) and the machine's flag of dl-cache.h: the loader takes entries with its own flags.
_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03, "i386": 0x0003}


def read_cache(files: Files, machine: str) -> dict[str, str]:
    """The path of each library for this machine by its name; empty if there is no cache.

    Copies for newer processors (glibc-hwcaps) are left out: they have the same names and versions.
    """
    return parse_cache(_read_content(files), machine)


def read_all_copies(files: Files, machine: str) -> dict[str, list[str]]:
    """All paths of each library for this machine, including copies for newer processors."""
    copies: dict[str, list[str]] = {}
    for name, path, _hwcap in _parse_entries(_read_content(files), machine):
        copies.setdefault(name, []).append(path)
    return copies


def _read_content(files: Files) -> bytes:
    try:
        return files.read(CACHE, MAX_CACHE_BYTES) or b""
    except CannotTell:
        return b""  # the loader also goes on without a cache that it cannot open


def parse_cache(content: bytes, machine: str) -> dict[str, str]:
    """Parse a cache in the new format, alone or after the old one; empty for anything else."""
    paths: dict[str, str] = {}
    for name, path, hwcap in _parse_entries(content, machine):
        if hwcap == 0:
            paths.setdefault(name, path)
    return paths


def _parse_entries(content: bytes, machine: str) -> Iterator[tuple[str, str, int]]:
    start = content.find(MAGIC)
    if start < 0 or (start and not content.startswith(OLD_MAGIC)) or len(content) < start + _HEADER:
        return
    content = content[start:]
    # cache_file_new_flags_endian: 2 little, 3 big; caches from before glibc 2.33 have 0.
    order = ">" if content[28] & 3 == 3 else "<"
    (count,) = struct.unpack_from(f"{order}I", content, len(MAGIC))
    shape = struct.Struct(f"{order}iIIIQ")
    rows = memoryview(content)[
        _HEADER : _HEADER + min(count, (len(content) - _HEADER) // shape.size) * shape.size
    ]
    for flags, key, value, _osversion, hwcap in shape.iter_unpack(rows):
        # For a machine whose flags are not known here all entries count.
        if flags != _FLAGS.get(machine, flags):
            continue
        texts = []
        for offset in (key, value):
            end = content.find(b"\0", offset, offset + _MAX_PATH_BYTES)
            if offset < end:
                texts.append(content[offset:end].decode("utf-8", "surrogateescape"))
        if len(texts) == 2:
            yield texts[0], texts[1], hwcap
