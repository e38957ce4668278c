"""What the loader reads of an ELF file to find more of them. Loads nothing, as root asks it of each program.

`elf.py` says much more, by a library that takes longer to load than a check of root may.
"""

from __future__ import annotations

import struct
from typing import Callable, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.host.fs.disk import Opened
from npudoctor.host.fs.files import Files

MAGIC = b"\x7fELF"
MACHINES = {3: "i386", 62: "x86_64", 183: "aarch64"}
_HEAD = 4096
_MOST = 1 << 20  # bytes of the dynamic section, and of its texts
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _TEXTS, _TEXTS_SIZE, _RPATH, _RUNPATH = 1, 5, 10, 15, 29
# Auxiliary, filter, audit and depaudit: libraries too, the last two as a list.
_MORE = (0x7FFFFFFD, 0x7FFFFFFF, 0x6FFFFEFC, 0x6FFFFEFB)


@dataclass(frozen=True)
class Needs:
    """`needed`: names of libraries, or paths. `rpath` and `runpath`: entries as written there."""

    machine: str
    interpreter: Optional[str] = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


def needs_of(files: Files, path: str) -> Optional[Needs]:
    """The needs of the file at a path; None where it is no ELF file. CannotTell where it is a damaged one."""
    try:
        with files.opened(path) as file:
            return _needs(file, path)
    except OSError:
        return None  # nothing is there


def _needs(file: Opened, path: str) -> Optional[Needs]:
    head = file.read(0, _HEAD)
    if not head.startswith(MAGIC):
        return None

    def part(start: int, size: int) -> bytes:
        end = start + min(size, _MOST)
        return head[start:end] if end <= len(head) else file.read(start, end - start)

    try:
        return _parsed(head, part)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise CannotTell(_("the ELF file {path} cannot be parsed: {why}", path=path, why=error)) from error


def _parsed(head: bytes, part: Callable[[int, int], bytes]) -> Needs:
    order, wide = ">" if head[5] == 2 else "<", head[4] == 2
    (machine,) = struct.unpack_from(f"{order}H", head, 18)
    segments = _segments(head, part, order, wide)
    loaded = [(start, at, size) for kind, start, at, size in segments if kind == _LOAD]
    tags: dict[int, list[int]] = {}
    for kind, start, _at, size in segments:
        if kind == _DYNAMIC:
            for tag, value in struct.iter_unpack(f"{order}{'qQ' if wide else 'iI'}", part(start, size)):
                if not tag:
                    break
                tags.setdefault(tag & 0xFFFFFFFF, []).append(value)
    texts = _texts(tags, loaded, part)
    names_of = {tag: [_text(texts, value) for value in tags.get(tag, ())] for tag in (_NEEDED, *_MORE)}
    # An empty text is none to the loader; an empty entry of a longer one is the working directory.
    lists = {
        tag: [entry for value in tags.get(tag, ()) for text in (_text(texts, value),) if text
              for entry in text.split(":")]
        for tag in (_RPATH, _RUNPATH)
    }  # fmt: skip
    interpreters = [part(start, size) for kind, start, _at, size in segments if kind == _INTERPRETER]
    return Needs(
        MACHINES.get(machine, str(machine)),
        _text(interpreters[0], 0) if interpreters else None,
        tuple(name for names in names_of.values() for text in names for name in text.split(":") if name),
        tuple(lists[_RPATH]),
        tuple(lists[_RUNPATH]),
    )


def _segments(
    head: bytes, part: Callable[[int, int], bytes], order: str, wide: bool
) -> list[tuple[int, int, int, int]]:
    """Of each program header: its kind, where it lies in the file and in memory, its size in the file."""
    (start,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", head, 32 if wide else 28)
    size, count = struct.unpack_from(f"{order}HH", head, 54 if wide else 42)
    shape = struct.Struct(f"{order}{'I4xQQ8xQ' if wide else 'III4xI'}")
    table = part(start, size * count)
    return [shape.unpack_from(table, number * size) for number in range(count)]


def _texts(
    tags: dict[int, list[int]], loaded: list[tuple[int, int, int]], part: Callable[[int, int], bytes]
) -> bytes:
    """The texts of the dynamic section, which it names by where they lie in memory."""
    if _TEXTS not in tags:
        return b""
    address, length = tags[_TEXTS][0], tags.get(_TEXTS_SIZE, [_MOST])[0]
    for start, at, size in loaded:
        if at <= address < at + size:
            return part(start + address - at, length)
    raise ValueError("DT_STRTAB")


def _text(texts: bytes, at: int) -> str:
    end = texts.find(b"\0", at)
    if not 0 <= at <= end:
        raise ValueError("DT_STRTAB")
    return texts[at:end].decode("utf-8", "surrogateescape")
