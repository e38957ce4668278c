"""What a shared library or a program says of itself: needs, search paths, versions, symbols.

pyelftools reads it; nothing is run. Only the blocks that are asked for are read, and only so many.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files

if TYPE_CHECKING:
    from npudoctor.host.libraries.elf_parts import Elf

MAGIC = b"\x7fELF"
NODEFLIB = 0x800  # of DT_FLAGS_1

T = TypeVar("T")


class BadLibrary(CannotTell):
    """The file is there and readable, and it is no ELF file, or a damaged one: the loader fails on it too."""


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
    wants: tuple[tuple[str, tuple[str, ...]], ...] = ()
    defines: tuple[str, ...] = ()
    mapped: int = 0
    writable: int = 0


@dataclass(frozen=True)
class Symbols:
    """The names that a library offers, and those that others must offer for it to be loaded.

    `readable`: whether the file has a table of them that can be read by its section headers.
    """

    defined: frozenset[str]
    wanted: frozenset[str]
    readable: bool = True


class Libraries:
    """ELF files below the root; each is read once for all checks."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, Library] = {}
        self._bad: dict[str, BadLibrary] = {}
        self._symbols: dict[str, Symbols] = {}
        self._wanted: dict[str, frozenset[str]] = {}
        self._lock = threading.RLock()

    def at(self, path: str) -> Optional[Library]:
        """What the file at this path says; None when it is missing. BadLibrary, CannotTell."""
        real = self._files.real(path)
        if real is None:
            return None
        with self._lock:
            if real in self._bad:
                raise self._bad[real]
            if real not in self._known:
                try:
                    self._known[real] = self._opened(real, self._library)
                except BadLibrary as error:
                    self._bad[real] = error
                    raise
            return self._known[real]

    def symbols(self, path: str) -> Optional[Symbols]:
        """The dynamic symbols of the file; None when it is missing."""
        real = self._files.real(path)
        if real is None:
            return None
        with self._lock:
            if real not in self._symbols:
                self._symbols[real] = self._opened(real, self._read_symbols)
            return self._symbols[real]

    def wanted(self, path: str) -> frozenset[str]:
        """The names that others must offer; none when the file is missing. Much faster than all symbols."""
        real = self._files.real(path)
        if real is None:
            return frozenset()
        with self._lock:
            if real not in self._wanted:
                read = self._opened(real, lambda _path, elf: elf.symbols(everything=False)[1])
                self._wanted[real] = frozenset(read)
            return self._wanted[real]

    def section(self, path: str, name: str) -> Optional[bytes]:
        """The content of a section of the file; None when either is missing."""
        real = self._files.real(path)
        return None if real is None else self._opened(real, lambda _path, elf: elf.section(name))

    def _opened(self, real: str, read: Callable[[str, Elf], T]) -> T:
        entry = self._files.stat(real)
        if entry is not None and not entry.is_file:
            raise BadLibrary(_("{path} is not a regular file", path=real))
        if self._files.read(real, 4) != MAGIC:
            raise BadLibrary(_("{path} is not an ELF file", path=real))
        from npudoctor.host.libraries.elf_parts import Elf

        try:
            return read(real, Elf(self._files, real))
        except CannotTell:
            raise
        except Exception as error:  # whatever a library of others makes of hostile bytes
            raise BadLibrary(
                _("the ELF file {path} cannot be parsed: {why}", path=real, why=type(error).__name__)
            ) from error

    @staticmethod
    def _library(path: str, elf: Elf) -> Library:
        return Library(
            path,
            elf.bits,
            elf.machine,
            elf.text("DT_SONAME"),
            tuple(elf.texts("DT_NEEDED")),
            elf.text("DT_RPATH"),
            elf.text("DT_RUNPATH"),
            elf.interpreter(),
            any(value & NODEFLIB for value in elf.tags.get("DT_FLAGS_1", [])),
            elf.wants(),
            elf.defines(),
            *elf.sizes(),
        )

    @staticmethod
    def _read_symbols(path: str, elf: Elf) -> Symbols:
        defined, wanted = elf.symbols()
        return Symbols(frozenset(defined), frozenset(wanted), elf.has_symbols())
