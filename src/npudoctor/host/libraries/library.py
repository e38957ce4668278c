"""What a shared library or a program says of itself: needs, search paths, versions, symbols."""

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

    `readable`: whether the file has a table of them whose length can be told.
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
                    self._known[real] = self._ask(real, lambda elf: _library(real, elf))
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
                self._symbols[real] = self._ask(real, _symbols)
            return self._symbols[real]

    def wanted(self, path: str) -> frozenset[str]:
        """The names that others must offer; none when the file is missing. Much faster than all symbols."""
        real = self._files.real(path)
        if real is None:
            return frozenset()
        with self._lock:
            if real not in self._wanted:
                self._wanted[real] = frozenset(self._ask(real, lambda elf: elf.read_wanted()))
            return self._wanted[real]

    def exports(self, path: str, names: Iterable[str]) -> Optional[frozenset[str]]:
        """Those of the names that the file offers, by its hash table: a few milliseconds for 64 of 300 000.
        None when it is missing, or has no table that can be read."""
        real = self._files.real(path)
        if real is None:
            return None
        with self._lock:
            known = self._symbols.get(real)
            if known is not None:
                return known.defined.intersection(names) if known.readable else None
            exports = self._ask(real, lambda elf: elf.exports(names))
            return None if exports is None else frozenset(exports)

    def section(self, path: str, name: str) -> Optional[bytes]:
        """The content of a section of the file; None when either is missing."""
        real = self._files.real(path)
        return None if real is None else self._ask(real, lambda elf: elf.section(name))

    def _ask(self, real: str, question: Callable[[Elf], T]) -> T:
        from npudoctor.host.libraries.elf import MAGIC, Damaged, Elf  # most runs ask of no library

        entry = self._files.stat(real)
        if entry is None or not entry.is_file:
            raise BadLibrary(_("{path} is not a regular file", path=real))
        with self._files.open_file(real) as file:
            if file.read(0, len(MAGIC)) != MAGIC:
                raise BadLibrary(_("{path} is not an ELF file", path=real))
            try:
                return question(Elf(file.read, entry.size, real))
            except Damaged as error:
                raise BadLibrary(
                    _("the ELF file {path} cannot be parsed: {why}", path=real, why=error)
                ) from error


def _library(path: str, elf: Elf) -> Library:
    from npudoctor.host.libraries import elf as parts

    return Library(
        path,
        elf.bits,
        elf.machine,
        elf.text(parts.SONAME),
        tuple(elf.texts(parts.NEEDED)),
        elf.text(parts.RPATH),
        elf.text(parts.RUNPATH),
        elf.interpreter(),
        any(value & _NODEFLIB for value in elf.tags.get(parts.FLAGS_1, ())),
        elf.wants(),
        elf.defines(),
        *elf.sizes(),
    )


def _symbols(elf: Elf) -> Symbols:
    symbols = elf.symbols()
    defined, wanted = symbols or (set(), set())
    return Symbols(frozenset(defined), frozenset(wanted), symbols is not None)
