"""Which libraries LD_LIBRARY_PATH, LD_PRELOAD or a copy put in the place of others, and what those lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.host.host import Host
from npudoctor.host.libraries.elf import Symbols
from npudoctor.host.libraries.loader import Loaded, Loader

LED_BY = "LD_LIBRARY_PATH"
PRELOAD = "LD_PRELOAD"
LITTLE = 16  # symbols; what a compiler puts into an empty library, and some more
# Of the C library and of C++: by their versions, which libstdcxx compares.
_VERSIONED = ("libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libstdc++.so", "ld-linux")


@dataclass(frozen=True)
class ReplacedLibrary:
    """A library in the place of another one. `own`: the path that would be taken without the variable."""

    found: Loaded
    name: str
    own: str
    variable: str

    @property
    def real(self) -> str:
        """Its file, without links."""
        return self.found.library.path


@dataclass(frozen=True)
class MissingSymbol:
    """A symbol that `by`, the path of a library, asks for and nobody has since `taken` is there."""

    taken: ReplacedLibrary
    symbol: str
    by: str


def replaced_in(host: Host, loader: Loader) -> list[ReplacedLibrary]:
    """What stands in the place of another file; the same file by another name is no other one."""
    preloaded = [(one, PRELOAD) for one in loader.preloaded]
    led = [(one, LED_BY) for one in loader.loaded if one.via == LED_BY and one not in loader.preloaded]
    found = []
    for one, variable in (*preloaded, *led):
        for name in dict.fromkeys((one.library.soname, one.name.rpartition("/")[2])):
            own = loader.otherwise(name) if name else None
            if name and own and host.files.real(own) != one.library.path:
                found.append(ReplacedLibrary(one, name, own, variable))
                break
    return found


def missing_symbols(host: Host, loader: Loader, taken: Sequence[ReplacedLibrary]) -> Iterator[MissingSymbol]:
    """The first symbol that each of these lacks; nothing where some library does not tell its symbols."""
    judged = []
    for one in taken:
        # Of a stub without any version the loader takes what it has by name.
        if not one.name.startswith(_VERSIONED) or not one.found.library.defines:
            lack = _version(loader, one)
            if lack is None:
                judged.append(one)
            else:
                yield lack
    if not judged:
        return
    asked = {one.found.path: _wants(host, loader, one) for one in judged}
    open_ = {symbol for wants in asked.values() for symbol in wants}
    for loaded in loader.loaded:
        if not open_:
            return
        symbols = _symbols(host, loaded.path)
        if symbols is None:
            return
        open_ -= symbols.defined
    for taken_one in judged:
        wants = asked[taken_one.found.path]
        symbol = min((symbol for symbol in wants if symbol in open_), default=None)
        if symbol is not None:
            yield MissingSymbol(taken_one, symbol, wants[symbol])


def hollow_library(host: Host, loader: Loader, strange: Callable[[str], bool]) -> Optional[MissingSymbol]:
    """A library without which those that need it cannot be loaded, and which lacks what they ask for; of
    what no variable leads to. `strange`: whether a file is not as it was installed.

    Looked into is one that lacks a version, or has none where others ask for some, and one that is strange
    and offers next to nothing; a library may be so, then others have all that is asked for.
    """
    asked = _versions_asked(loader)
    for one in loader.loaded:
        if one.via in (LED_BY, "preload") or not one.chain:
            continue
        taken = ReplacedLibrary(one, one.name, "", "")
        names = {one.name, one.library.soname}
        versions = [(version, by) for name in names for version, by in asked.get(name, ())]
        offered = one.library.defines
        if offered and not one.name.startswith(_VERSIONED):
            for version, by in versions:
                if version not in offered:
                    return MissingSymbol(taken, version, by)
        lack = None
        with suppress(CannotTell):  # a damaged file is package-files' to tell
            if (versions and not offered) or (strange(one.path) and _offers_little(host, one)):
                lack = _unresolved(host, loader, taken)
        if lack is not None:
            return lack
    return None


def _versions_asked(loader: Loader) -> dict[Optional[str], list[tuple[str, str]]]:
    """By the name of a library: which versions of it are asked for, and by whose path."""
    asked: dict[Optional[str], list[tuple[str, str]]] = {}
    for one in loader.loaded:
        for name, versions in one.library.wants:
            asked.setdefault(name, []).extend((version, one.path) for version in versions)
    return asked


def _offers_little(host: Host, one: Loaded) -> bool:
    symbols = _symbols(host, one.path)
    return symbols is not None and len(symbols.defined) < LITTLE


def _unresolved(host: Host, loader: Loader, taken: ReplacedLibrary) -> Optional[MissingSymbol]:
    """A symbol that who needs it asks for and nobody has; None where some library does not tell its own, or
    some is not found."""
    if loader.missing:
        return None
    names = (taken.found.name, taken.found.library.soname)
    users = [one for one in loader.loaded if any(name in one.library.needed for name in names)]
    wants = {symbol: one.path for one in users for symbol in host.libraries.wanted(one.path)}
    open_ = set(wants)
    for loaded in loader.loaded:
        symbols = _symbols(host, loaded.path) if open_ else None
        if symbols is None:
            return None
        open_ -= symbols.defined
    return MissingSymbol(taken, min(open_), wants[min(open_)]) if open_ else None


def _version(loader: Loader, taken: ReplacedLibrary) -> Optional[MissingSymbol]:
    """The first version that it does not offer; of one without versions the loader only warns."""
    offered = taken.found.library.defines
    for one in loader.loaded if offered else ():
        for version in dict(one.library.wants).get(taken.name, ()):
            if version not in offered:
                return MissingSymbol(taken, version, one.path)
    return None


def _wants(host: Host, loader: Loader, taken: ReplacedLibrary) -> dict[str, str]:
    """What it may lack, with who asks for it: what the one in its place has and it has not; and what it asks
    for itself, which was made to go with others."""
    here, own = _symbols(host, taken.found.path), _symbols(host, taken.own)
    if here is None or own is None:
        return {}
    wants = dict.fromkeys(here.wanted - own.wanted, taken.found.path)
    only = own.defined - here.defined
    for one in loader.loaded if only else ():
        if taken.name in one.library.needed:
            wants.update(dict.fromkeys(host.libraries.wanted(one.path) & only, one.path))
    return wants


def _symbols(host: Host, path: str) -> Optional[Symbols]:
    """None where the file tells none, as without its section headers: the loader knows them all the same."""
    symbols = host.libraries.symbols(path)
    return symbols if symbols and symbols.told else None
