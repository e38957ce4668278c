"""The parts of an ELF file, by pyelftools' structures; imported only when there is one to read.

Not by its sections and segments: those read whole hash tables, seconds for one large library, when they
are made. Nothing here trusts the file: every count is bounded, and what makes no sense raises.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Any, Optional

from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from npudoctor.host.fs.block_stream import BlockStream
from npudoctor.host.fs.files import Files

MOST = 4096  # tags, versions, headers of one file
LONGEST = 4096  # of a name

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_386": "i386", "EM_ARM": "arm"}
_UNDEFINED, _LOCAL, _WEAK = 0, 0, 2
_WRITABLE = 2  # of a segment's flags


class Elf:
    """One ELF file, opened."""

    def __init__(self, files: Files, path: str) -> None:
        stream: Any = BlockStream(files, path)
        self._window: IO[bytes] = stream
        self._elf = ELFFile(self._window)
        self.bits = int(self._elf.elfclass)
        kind = str(self._elf["e_machine"])
        self.machine = _MACHINES.get(kind, kind.replace("EM_", "").lower())
        self._segments = list(self._headers("Elf_Phdr", "e_ph"))
        self.tags: dict[str, list[int]] = {}
        for tag, value in self._dynamic():
            self.tags.setdefault(tag, []).append(value)

    def text(self, tag: str) -> Optional[str]:
        """The first text of a tag such as DT_SONAME."""
        return next(iter(self.texts(tag)), None)

    def texts(self, tag: str) -> list[str]:
        """All texts of a tag such as DT_NEEDED."""
        return [self._string(offset) for offset in self.tags.get(tag, [])]

    def interpreter(self) -> Optional[str]:
        """The loader that a program asks for."""
        for segment in self._segments:
            if segment.p_type == "PT_INTERP":
                return self._cut(segment.p_offset)
        return None

    def sizes(self) -> tuple[int, int]:
        """Bytes of address space from its first segment to its last, and of the segments to be written."""
        loaded = [segment for segment in self._segments if segment.p_type == "PT_LOAD"]
        ends = [int(segment.p_vaddr + segment.p_memsz) for segment in loaded]
        writable = sum(int(segment.p_memsz) for segment in loaded if segment.p_flags & _WRITABLE)
        return max(ends, default=0) - min((int(segment.p_vaddr) for segment in loaded), default=0), writable

    def wants(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """For each library that it needs, the versions that it wants of it."""
        needs = self._versions("DT_VERNEED", "Elf_Verneed", "vn", "Elf_Vernaux", "vna")
        return tuple((self._string(need.vn_file), tuple(names)) for need, names in needs)

    def defines(self) -> tuple[str, ...]:
        """The versions that it offers."""
        definitions = self._versions("DT_VERDEF", "Elf_Verdef", "vd", "Elf_Verdaux", "vda")
        return tuple(names[0] for _definition, names in definitions if names)

    def symbols(self, everything: bool = True) -> tuple[set[str], set[str]]:
        """The names that it offers, and those it wants of others; by hand, as there may be 100 000. Without
        `everything` only the latter, which are few."""
        defined: set[str] = set()
        wanted: set[str] = set()
        wide = self.bits == 64
        shape = ("<" if self._elf.little_endian else ">") + ("IBBHQQ" if wide else "IIIBBH")
        sections = list(self._headers("Elf_Shdr", "e_sh"))
        for section in sections:
            if section.sh_type != "SHT_DYNSYM":
                continue
            names = self._content(sections[section.sh_link])
            table = self._content(section)
            whole = len(table) // struct.calcsize(shape) * struct.calcsize(shape)
            for fields in struct.iter_unpack(shape, table[:whole]):
                name, info, index = fields[0], fields[1 if wide else 3], fields[3 if wide else 5]
                if index != _UNDEFINED and not everything:
                    continue
                text = names[name : names.find(b"\0", name)].decode("utf-8", "replace")
                if index != _UNDEFINED:
                    defined.add(text)
                elif info >> 4 not in (_LOCAL, _WEAK):
                    wanted.add(text)
        return defined, wanted

    def has_symbols(self) -> bool:
        """Whether there is a table of symbols, be it empty."""
        return any(section.sh_type == "SHT_DYNSYM" for section in self._headers("Elf_Shdr", "e_sh"))

    def section(self, name: str) -> Optional[bytes]:
        """The content of the section of this name; None when there is none, as in a stripped library."""
        headers = list(self._headers("Elf_Shdr", "e_sh"))
        if not headers:
            return None
        names = self._content(headers[self._elf["e_shstrndx"]])
        for header in headers:
            if names[header.sh_name : names.find(b"\0", header.sh_name)] == name.encode():
                return self._content(header)
        return None

    def _dynamic(self) -> Iterator[tuple[str, int]]:
        for segment in self._segments:
            if segment.p_type != "PT_DYNAMIC":
                continue
            for number in range(min(MOST, segment.p_filesz // (self.bits // 4))):
                tag = self._parse("Elf_Dyn", segment.p_offset + number * (self.bits // 4))
                if tag.d_tag == "DT_NULL":
                    return
                yield str(tag.d_tag), int(tag.d_val)

    def _versions(
        self, tag: str, shape: str, prefix: str, inner: str, inner_prefix: str
    ) -> Iterator[tuple[Any, list[str]]]:
        for address in self.tags.get(tag, [])[:1]:
            at = self._offset(address)
            for _number in range(min(MOST, *self.tags.get(f"{tag}NUM", [0]))):
                entry = self._parse(shape, at)
                names, inside = [], at + entry[f"{prefix}_aux"]
                for _name in range(min(MOST, entry[f"{prefix}_cnt"])):
                    version = self._parse(inner, inside)
                    names.append(self._string(version[f"{inner_prefix}_name"]))
                    inside += version[f"{inner_prefix}_next"]
                yield entry, names
                at += entry[f"{prefix}_next"]

    def _headers(self, shape: str, prefix: str) -> Iterator[Any]:
        start, size = self._elf[f"{prefix}off"], self._elf[f"{prefix}entsize"]
        for number in range(min(MOST, self._elf[f"{prefix}num"])):
            yield self._parse(shape, start + number * size)

    def _parse(self, shape: str, at: int) -> Any:
        return struct_parse(getattr(self._elf.structs, shape), self._window, at)

    def _offset(self, address: int) -> int:
        """Where in the file an address of memory lies."""
        for segment in self._segments:
            if segment.p_type == "PT_LOAD" and 0 <= address - segment.p_vaddr < segment.p_filesz:
                return int(segment.p_offset + address - segment.p_vaddr)
        raise ValueError(f"no segment holds {address:#x}")

    def _string(self, offset: int) -> str:
        return self._cut(self._offset(self.tags["DT_STRTAB"][0]) + offset)

    def _cut(self, at: int) -> str:
        self._window.seek(at)
        return self._window.read(LONGEST).partition(b"\0")[0].decode("utf-8", "surrogateescape")

    def _content(self, section: Any) -> bytes:
        self._window.seek(section.sh_offset)
        return self._window.read(section.sh_size)
