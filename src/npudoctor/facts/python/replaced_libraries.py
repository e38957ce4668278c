"""Which libraries LD_LIBRARY_PATH, LD_PRELOAD or a copy put in the place of others, and what those lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.host.host import Host
from npudoctor.host.libraries.library import Symbols
from npudoctor.host.libraries.loader import LoadedLibrary, Loader

LED_BY = "LD_LIBRARY_PATH"
PRELOAD = "LD_PRELOAD"
LITTLE = 16  # symbols; what a compiler puts into an empty library, and some more
# Of the C library and of C++: by their versions, which libstdcxx compares.
_VERSIONED = ("libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libstdc++.so", "ld-linux")


@dataclass(frozen=True)
class ReplacedLibrary:
    """A library that was loaded in the place of another one. `own`: the path that would be taken without the
    variable.
    """

    loaded: LoadedLibrary
    name: str
    own: str
    variable: str

    @property
    def real(self) -> str:
        """Its file, without links."""
        return self.loaded.library.path


@dataclass(frozen=True)
class MissingSymbol:
    """A symbol that the library `by` asks for and no library has since `replacement` is loaded."""

    replacement: ReplacedLibrary
    symbol: str
    by: str


def find_replaced(host: Host, loader: Loader) -> list[ReplacedLibrary]:
    """The libraries that stand in the place of another file; the same file by another name does not count."""
    preloaded = [(loaded, PRELOAD) for loaded in loader.preloaded]
    led = [
        (loaded, LED_BY)
        for loaded in loader.loaded
        if loaded.via == LED_BY and loaded not in loader.preloaded
    ]
    replaced = []
    for loaded, variable in (*preloaded, *led):
        # A copy under another name still answers to its soname.
        for name in dict.fromkeys((loaded.library.soname, loaded.name.rpartition("/")[2])):
            own = loader.find_without_environment(name) if name else None
            if name and own and host.files.real(own) != loaded.library.path:
                replaced.append(ReplacedLibrary(loaded, name, own, variable))
                break
    return replaced


def find_missing_symbols(
    host: Host, loader: Loader, replacements: Sequence[ReplacedLibrary]
) -> Iterator[MissingSymbol]:
    """The first symbol that each of these lacks; none where some library does not show its symbols."""
    candidates = []
    for replaced in replacements:
        # Of a stub without any version the loader takes what it has by name.
        if not replaced.name.startswith(_VERSIONED) or not replaced.loaded.library.defined_versions:
            lack = _find_missing_version(loader, replaced)
            # Only where all versions are there single symbols are compared.
            if lack is None:
                candidates.append(replaced)
            else:
                yield lack
    if not candidates:
        return
    wanted_by_path = {replaced.loaded.path: _collect_wants(host, loader, replaced) for replaced in candidates}
    open_ = {symbol for wants in wanted_by_path.values() for symbol in wants}
    for loaded in loader.loaded:
        if not open_:
            return
        exports = host.libraries.exports(loaded.path, open_)
        if exports is None:
            return
        open_ -= exports
    for replaced in candidates:
        wants = wanted_by_path[replaced.loaded.path]
        symbol = min((symbol for symbol in wants if symbol in open_), default=None)
        if symbol is not None:
            yield MissingSymbol(replaced, symbol, wants[symbol])


def find_hollow_library(
    host: Host, loader: Loader, is_altered: Callable[[str], bool]
) -> Optional[MissingSymbol]:
    """A library without which its users cannot be loaded, and which lacks what they ask for; only libraries
    to which no variable leads. None without such.

    `is_altered`: whether a file is not as it was installed. Only such libraries are looked into that lack a
    version, have none where others ask for some, or are altered and offer next to nothing; a library may be
    so, then others have all that is asked for.
    """
    versions_by_name = _collect_versions(loader)
    for loaded in loader.loaded:
        if loaded.via in (LED_BY, "preload") or not loaded.chain:
            continue
        replacement = ReplacedLibrary(loaded, loaded.name, "", "")
        names = {loaded.name, loaded.library.soname}
        versions = [(version, by) for name in names for version, by in versions_by_name.get(name, ())]
        offered = loaded.library.defined_versions
        if offered and not loaded.name.startswith(_VERSIONED):
            for version, by in versions:
                if version not in offered:
                    return MissingSymbol(replacement, version, by)
        lack = None
        with suppress(CannotTell):  # a damaged file is package-files' to tell
            suspect = bool(versions) and not offered
            if not suspect and is_altered(loaded.path):
                symbols = _symbols(host, loaded.path)
                suspect = symbols is not None and len(symbols.defined) < LITTLE
            if suspect:
                lack = _find_unresolved(host, loader, replacement)
        if lack is not None:
            return lack
    return None


def _collect_versions(loader: Loader) -> dict[Optional[str], list[tuple[str, str]]]:
    """For the name of a library: (version, path) of each version of it that is asked for, and by which
    library.
    """
    versions_of: dict[Optional[str], list[tuple[str, str]]] = {}
    for loaded in loader.loaded:
        for name, versions in loaded.library.required_versions:
            versions_of.setdefault(name, []).extend((version, loaded.path) for version in versions)
    return versions_of


def _find_unresolved(host: Host, loader: Loader, replacement: ReplacedLibrary) -> Optional[MissingSymbol]:
    """A symbol that a user of the library asks for and no library has; None where some library does not show
    its symbols, or is not found.
    """
    # The missing library may have the symbol.
    if loader.missing:
        return None
    names = (replacement.loaded.name, replacement.loaded.library.soname)
    users = [user for user in loader.loaded if any(name in user.library.needed for name in names)]
    wants = {symbol: user.path for user in users for symbol in host.libraries.read_undefined(user.path)}
    open_ = set(wants)
    for loaded in loader.loaded:
        exports = host.libraries.exports(loaded.path, open_) if open_ else None
        if exports is None:
            return None
        open_ -= exports
    return MissingSymbol(replacement, min(open_), wants[min(open_)]) if open_ else None


def _find_missing_version(loader: Loader, replacement: ReplacedLibrary) -> Optional[MissingSymbol]:
    """The first version that it does not offer; None for a library without versions, for which the loader
    only warns.
    """
    offered = replacement.loaded.library.defined_versions
    for loaded in loader.loaded if offered else ():
        for version in dict(loaded.library.required_versions).get(replacement.name, ()):
            if version not in offered:
                return MissingSymbol(replacement, version, loaded.path)
    return None


def _collect_wants(host: Host, loader: Loader, replacement: ReplacedLibrary) -> dict[str, str]:
    """What may be missing, with the library that asks for it: what the replaced library has and this one
    lacks, and what this one asks for itself, as it was built to go with others.
    """
    here, own = _symbols(host, replacement.loaded.path), _symbols(host, replacement.own)
    if here is None or own is None:
        return {}
    wants = dict.fromkeys(here.undefined - own.undefined, replacement.loaded.path)
    only = own.defined - here.defined
    for loaded in loader.loaded if only else ():
        if replacement.name in loaded.library.needed:
            wants.update(dict.fromkeys(host.libraries.read_undefined(loaded.path) & only, loaded.path))
    return wants


def _symbols(host: Host, path: str) -> Optional[Symbols]:
    """The symbols of a library; None where its table has no length that can be determined; the loader need
    not know it.
    """
    symbols = host.libraries.symbols(path)
    return symbols if symbols and symbols.is_readable else None
