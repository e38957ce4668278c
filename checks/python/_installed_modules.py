"""Which modules a distribution brings, and where Python would find them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor import Host
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.fs.access import is_closed
from npudoctor.host.python import without_metadata
from npudoctor.host.python.bindings import bindings
from npudoctor.host.python.installed_files import InstalledFile, recorded_files, site_of
from npudoctor.host.python.interpreter import Distribution, normal
from npudoctor.host.python.modules import Module, Modules

# No framework imports these packages: it looks for the libraries in their folders.
_NEVER_IMPORTED = ("nvidia",)


def module_of(name: str) -> str:
    """What a distribution brings, as far as its name tells."""
    return without_metadata.module_of(normal(name))


def modules_of(host: Host) -> Modules:
    """What the job would find: where it is started comes first."""
    found: Modules = host.once(
        "modules", lambda: Modules(host.files, host.interpreter.layout(), _first(host))
    )
    return found


def _first(host: Host) -> list[str]:
    here = working_directory(host)
    if here is None or host.options.root is not None or host.variables.get("PYTHONSAFEPATH"):
        return []
    return [] if is_closed(host.files, here) else [here]


def recorded_once(host: Host, found: Distribution) -> list[InstalledFile]:
    """The list of its files; read once for all checks."""
    listed: list[InstalledFile] = host.once(
        f"RECORD of {found.folder}", lambda: recorded_files(host.files, found)
    )
    return listed


def is_strange(host: Host, path: str) -> bool:
    """Whether a file in a package is not as it was installed there, by the lists of the frameworks and of
    what they require; of other folders, and where there is no list, nothing is said."""
    path = posixpath.normpath(path)  # the loader says base/../libs
    return any(
        path.startswith(f"{site}/") and _differs(host, path, path[len(site) + 1 :], sizes)
        for site, sizes in _library_sizes(host)
    )


def _differs(host: Host, path: str, listed_as: str, sizes: Mapping[str, int]) -> bool:
    """Only of a package with libraries of its own."""
    package = f"{listed_as.partition('/')[0]}/"
    entry = host.files.stat(path)
    if entry is None or not any(name.startswith(package) for name in sizes):
        return False
    return sizes.get(listed_as) != entry.size


def _library_sizes(host: Host) -> list[tuple[str, dict[str, int]]]:
    """By the folder of each distribution: the libraries that came with it, and their sizes."""
    from npudoctor.checks.python._requirements import closure_of  # which needs this file

    def read() -> list[tuple[str, dict[str, int]]]:
        roots = {found.folder: found for found in closure_of(host).roots}
        return [
            (site_of(found), {one.path: one.size for one in recorded_once(host, found) if ".so" in one.path})
            for found in roots.values()
        ]

    told: list[tuple[str, dict[str, int]]] = host.once("libraries of the frameworks", read)
    return told


def tops(listed: Sequence[InstalledFile]) -> list[str]:
    """The packages and modules that come with a list of files: google.protobuf of google/protobuf/..."""
    paths = {one.path for one in listed}
    found: dict[str, None] = {}
    for path in paths:
        first, slash, rest = path.partition("/")
        if not slash:
            name = first.partition(".")[0]
        elif f"{first}/__init__.py" in paths:
            name = first
        else:
            second = rest.partition("/")[0]
            name = f"{first}.{second}" if f"{first}/{second}/__init__.py" in paths else ""
        if name.replace(".", "").isidentifier() and first not in _NEVER_IMPORTED:
            found[name] = None
    return sorted(found)


def is_inside(host: Host, module: Module, site: str) -> bool:
    """Whether a module lies in this folder for packages, by whatever name."""
    places = [module.file] if module.file is not None else list(module.folders)
    if any(place.startswith(f"{site}/") for place in places):
        return True
    real = host.files.real(site)
    ends = (host.files.real(place) or "" for place in places)
    return real is not None and any(end.startswith(f"{real}/") for end in ends)


def is_another(host: Host, winner: Module, name: str, listed: Sequence[InstalledFile], site: str) -> bool:
    """Whether what is found first is not the installed package, but something else of its name."""
    if winner.file is None or winner.archived or not winner.file.endswith(".py"):
        return False
    modules = modules_of(host)
    offered = bindings(modules.text(winner.file))
    if offered is None or _shares_parts(modules, winner, name, listed):
        return False
    wanted = _offered_by(modules, name, site)
    return not offered or (wanted is not None and len(offered & wanted) * 2 < len(wanted))


def _shares_parts(modules: Modules, winner: Module, name: str, listed: Sequence[InstalledFile]) -> bool:
    """Whether most of the parts of the installed package are there too."""
    start = f"{name.replace('.', '/')}/"
    parts = {one.path[len(start) :].partition("/")[0] for one in listed if one.path.startswith(start)}
    parts.discard("__init__.py")
    there = {part for folder in winner.folders for part in modules.names(folder)}
    return bool(parts) and len(parts & there) * 2 >= len(parts)


def _offered_by(modules: Modules, name: str, site: str) -> Optional[frozenset[str]]:
    path = f"{site}/{name.replace('.', '/')}"
    return next((bindings(text) for text in _texts(modules, path) if text), None)


def _texts(modules: Modules, path: str) -> Iterator[str]:
    yield modules.text(f"{path}/__init__.py")
    yield modules.text(f"{path}.py")
