"""Reads what a library or program needs and provides: libraries, search paths, versions, symbols."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files

if TYPE_CHECKING:
    from npudoctor.host.libraries.elf import Elf

_NODEFLIB = 0x800  # of DT_FLAGS_1

T = TypeVar("T")


class BadLibrary(CannotTell):
    """The file can be read but is not an ELF file, or a damaged one: the loader fails on it, too."""


@dataclass(frozen=True)
class Library:
    """One ELF file. `wants`: for each library that it needs, the versions it wants of it (GLIBC_2.17).

    `defines` are the versions that it offers. `nodeflib`: the default folders are not for it. `mapped` and
    `writable`: bytes of address space that it takes in a process, and of these those that may be written.
    """

    path: str
    bits: int
    machine: str
    soname: Optional[str] = None
    needed: tuple[str, ...] = ()
    rpath: Optional[str] = None
    runpath: Optional[str] = None
    interpreter: Optional[str] = None
    nodeflib: bool = False
    required_versions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    defined_versions: tuple[str, ...] = ()
    mapped_bytes: int = 0
    writable_bytes: int = 0


@dataclass(frozen=True)
class Symbols:
    """The names that a library offers, and those that others must offer for it to be loaded.

    `readable`: whether the file has a table of them whose length can be told.
    """

    defined: frozenset[str]
    undefined: frozenset[str]
    is_readable: bool = True


class Libraries:
    """ELF files below the root; each is read once for all checks."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._library_by_path: dict[str, Library] = {}
        self._error_by_path: dict[str, BadLibrary] = {}
        self._symbols_by_path: dict[str, Symbols] = {}
        self._undefined_by_path: dict[str, frozenset[str]] = {}
        self._lock = threading.RLock()

    def read(self, path: str) -> Optional[Library]:
        """The library at a path; None if it is missing. Raises BadLibrary or CannotTell."""
        real = self._files.real(path)
        if real is None:
            return None
        with self._lock:
            if real in self._error_by_path:
                raise self._error_by_path[real]
            if real not in self._library_by_path:
                try:
                    self._library_by_path[real] = self._ask_elf(real, lambda elf: _read_library(real, elf))
                except BadLibrary as error:
                    self._error_by_path[real] = error
                    raise
            return self._library_by_path[real]

    def symbols(self, path: str) -> Optional[Symbols]:
        """All dynamic symbols of a file; None if it is missing."""
        real = self._files.real(path)
        if real is None:
            return None
        with self._lock:
            if real not in self._symbols_by_path:
                self._symbols_by_path[real] = self._ask_elf(real, _read_symbols)
            return self._symbols_by_path[real]

    def read_undefined(self, path: str) -> frozenset[str]:
        """The names that others must define; empty if the file is missing. Much faster than symbols()."""
        real = self._files.real(path)
        if real is None:
            return frozenset()
        with self._lock:
            if real not in self._undefined_by_path:
                self._undefined_by_path[real] = frozenset(
                    self._ask_elf(real, lambda elf: elf.read_undefined())
                )
            return self._undefined_by_path[real]

    def exports(self, path: str, names: Iterable[str]) -> Optional[frozenset[str]]:
        """Those of the names that a file defines; None if it is missing or has no readable table.

        By its hash table: a few milliseconds for 64 names among 300 000.
        """
        real = self._files.real(path)
        if real is None:
            return None
        with self._lock:
            symbols = self._symbols_by_path.get(real)
            if symbols is not None:
                return symbols.defined.intersection(names) if symbols.is_readable else None
            exports = self._ask_elf(real, lambda elf: elf.exports(names))
            return None if exports is None else frozenset(exports)

    def section(self, path: str, name: str) -> Optional[bytes]:
        """The content of a section of a file; None if the file or the section is missing."""
        real = self._files.real(path)
        return None if real is None else self._ask_elf(real, lambda elf: elf.section(name))

    def _ask_elf(self, real: str, question: Callable[[Elf], T]) -> T:
        from npudoctor.host.libraries.elf import MAGIC, DamagedElf, Elf  # most runs ask of no library

        entry = self._files.stat(real)
        if entry is None or not entry.is_file:
            raise BadLibrary(_("{path} is not a regular file", path=real))
        with self._files.open_file(real) as file:
            if file.read(0, len(MAGIC)) != MAGIC:
                raise BadLibrary(_("{path} is not an ELF file", path=real))
            try:
                return question(Elf(file.read, entry.size, real))
            except DamagedElf as error:
                raise BadLibrary(
                    _("the ELF file {path} cannot be parsed: {why}", path=real, why=error)
                ) from error


def _read_library(path: str, elf: Elf) -> Library:
    from npudoctor.host.libraries import elf as parts

    return Library(
        path,
        elf.bits,
        elf.machine,
        elf.read_tag_text(parts.SONAME),
        tuple(elf.read_tag_texts(parts.NEEDED)),
        elf.read_tag_text(parts.RPATH),
        elf.read_tag_text(parts.RUNPATH),
        elf.interpreter(),
        any(value & _NODEFLIB for value in elf.tags.get(parts.FLAGS_1, ())),
        elf.required_versions(),
        elf.defined_versions(),
        *elf.sizes(),
    )


def _read_symbols(elf: Elf) -> Symbols:
    symbols = elf.symbols()
    defined, undefined = symbols or (set(), set())
    return Symbols(frozenset(defined), frozenset(undefined), symbols is not None)
