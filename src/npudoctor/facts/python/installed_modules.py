"""Which modules a distribution brings, and where Python would find them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from npudoctor.facts.job.working_directory import working_directory
from npudoctor.facts.python.frameworks import EXTENSIONS, closure_of
from npudoctor.host.fs.archives import list_members
from npudoctor.host.host import Host
from npudoctor.host.python import without_metadata
from npudoctor.host.python.bindings import list_bindings
from npudoctor.host.python.installed_files import InstalledFile, read_record, site_of
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.host.python.modules import Module, Modules
from npudoctor.host.users.access import is_closed

# No framework imports these packages: it looks for the libraries in their folders.
_NEVER_IMPORTED = ("nvidia",)
# setuptools' prefix for the files of an editable installation (PEP 660).
_EDITABLE = "__editable__"


def module_of(name: str) -> str:
    """The module that a distribution brings, as far as its name tells."""
    return without_metadata.module_of(normalize_name(name))


def modules_of(host: Host) -> Modules:
    """The modules that the job would find; its working directory comes first."""
    return host.once(
        "modules", lambda: Modules(host.files, host.interpreter.layout(), _first_search_folders(host))
    )


def _first_search_folders(host: Host) -> list[str]:
    """Apart as it is asked once, behind the layout."""
    here = working_directory(host)
    if here is None or host.options.root is not None or host.variables.get("PYTHONSAFEPATH"):
        return []
    return [] if is_closed(host.files, here) else [here]


def list_recorded_files(host: Host, copy: Distribution) -> list[InstalledFile]:
    """The list of a distribution's files (RECORD); read once for all checks."""
    return _read_record_once(host, copy)[0]


def list_optional_files(host: Host, copy: Distribution) -> list[InstalledFile]:
    """Of the same list the files that an image may leave out as long as nothing imports them."""
    return _read_record_once(host, copy)[1]


def _read_record_once(host: Host, copy: Distribution) -> tuple[list[InstalledFile], list[InstalledFile]]:
    return host.once(f"RECORD of {copy.folder}", lambda: read_record(host.files, copy))


def is_altered(host: Host, path: str) -> bool:
    """Return whether a file in a package is not as it was installed, by the lists of the frameworks and of
    what they require. False in other folders, and where there is no list.
    """
    path = posixpath.normpath(path)  # the loader says base/../libs
    return any(
        path.startswith(f"{site}/") and _differs(host, path, path[len(site) + 1 :], sizes)
        for site, sizes in _library_sizes(host)
    )


def _differs(host: Host, path: str, listed_as: str, sizes: Mapping[str, int]) -> bool:
    """Return whether the size of a file differs from its list; only for a package with libraries of
    its own.
    """
    package = f"{listed_as.partition('/')[0]}/"
    entry = host.files.stat(path)
    if entry is None or not any(name.startswith(package) for name in sizes):
        return False
    return sizes.get(listed_as) != entry.size


def _library_sizes(host: Host) -> list[tuple[str, dict[str, int]]]:
    """For the folder of each framework: the libraries that came with it, and their sizes in bytes."""

    def read() -> list[tuple[str, dict[str, int]]]:
        roots = {root.folder: root for root in closure_of(host).roots}
        return [
            (
                site_of(root),
                {file.path: file.size for file in list_recorded_files(host, root) if ".so" in file.path},
            )
            for root in roots.values()
        ]

    return host.once("libraries of the frameworks", read)


def top_level_modules(listed: Sequence[InstalledFile]) -> list[str]:
    """The packages and modules that come with a list of files: google.protobuf of google/protobuf/..."""
    paths = {file.path for file in listed}
    names: set[str] = set()
    for path in paths:
        first, slash, rest = path.partition("/")
        if not slash:
            name = first.partition(".")[0]
        # Else a namespace package: its parts are the packages.
        elif f"{first}/__init__.py" in paths:
            name = first
        else:
            second = rest.partition("/")[0]
            name = f"{first}.{second}" if f"{first}/{second}/__init__.py" in paths else ""
        if name.replace(".", "").isidentifier() and first not in _NEVER_IMPORTED:
            names.add(name)
    return sorted(names)


def is_inside(host: Host, module: Module, site: str) -> bool:
    """Return whether a module lies in this folder for packages, by whatever name."""
    places = [module.file] if module.file is not None else list(module.folders)
    if any(place.startswith(f"{site}/") for place in places):
        return True
    real = host.files.real(site)
    ends = (host.files.real(place) or "" for place in places)
    return real is not None and any(end.startswith(f"{real}/") for end in ends)


def is_another(host: Host, winner: Module, name: str, listed: Sequence[InstalledFile], site: str) -> bool:
    """Return whether what is found first is not the installed package, but something else of its name."""
    if winner.file is None or winner.is_archived or not winner.file.endswith(".py"):
        return False
    modules = modules_of(host)
    offered = list_bindings(modules.text(winner.file))
    if offered is None or _shares_parts(modules, winner, name, listed):
        return False
    path = f"{site}/{name.replace('.', '/')}"
    texts = map(modules.text, (f"{path}/__init__.py", f"{path}.py"))
    own_names = next((list_bindings(text) for text in texts if text), None)
    # Fewer than half of the installed package's names: another package.
    return not offered or (own_names is not None and len(offered & own_names) * 2 < len(own_names))


def _shares_parts(modules: Modules, winner: Module, name: str, listed: Sequence[InstalledFile]) -> bool:
    """Return whether at least half of the parts of the installed package are there too."""
    start = f"{name.replace('.', '/')}/"
    parts = {file.path[len(start) :].partition("/")[0] for file in listed if file.path.startswith(start)}
    parts.discard("__init__.py")
    there = {part for folder in winner.folders for part in modules.names(folder)}
    return bool(parts) and len(parts & there) * 2 >= len(parts)


def is_editable(host: Host, copy: Distribution) -> bool:
    """Return whether it is installed as a link to its sources."""
    # setuptools normalises the name of the finder's file with underscores.
    start = f"{_EDITABLE}.{normalize_name(copy.name).replace('-', '_')}-"
    return any(name.startswith(start) for name in modules_of(host).names(site_of(copy)))


def is_not_built(host: Host, copy: Distribution, module: Module) -> bool:
    """Return whether a package of sources lacks the compiled module without which it cannot be imported."""
    if not module.folders or module.file is None or module.is_archived:
        return False
    needed = EXTENSIONS.get(normalize_name(copy.name), ())
    above = module.folders[0].rpartition("/")[0]
    names = modules_of(host).names
    built = any(
        name.startswith(f"{stem}.") and name.endswith((".so", ".pyd"))
        for folder, stem in needed
        for name in names(f"{above}/{folder}")
    )
    return bool(needed) and not built


def is_of_an_egg(host: Host, copy: Distribution, module: Module) -> bool:
    """Return whether it lies in an old egg without metadata; perhaps another version of the same
    distribution.
    """
    egg, inside, _rest = (module.file or "").partition(".egg/")
    copies = host.interpreter.distributions(copy.name)
    return bool(inside) and not any(site_of(other) == f"{egg}.egg" for other in copies)


def lacks_libraries(host: Host, copy: Distribution, module: Module) -> bool:
    """Return whether it lies in a zip file, such as an old egg, from which no library can be loaded, without
    a source that would unpack the library.
    """
    needed = EXTENSIONS.get(normalize_name(copy.name), ())
    archive = next((path for path in _archives(host) if (module.file or "").startswith(f"{path}/")), None)
    if not module.is_archived or not needed or archive is None:
        return False
    inside = list_members(host.files, archive)
    return not any(f"{folder}/{stem}{end}" in inside for folder, stem in needed for end in (".py", ".pyc"))


def _archives(host: Host) -> Iterator[str]:
    """The zip files of the search path, one by one: it has many places, of which the first may be it."""
    for place in host.interpreter.layout().search_path:
        entry = host.files.stat(place) if place.startswith("/") else None
        if entry is not None and entry.is_file:
            yield place


def module_at(path: str) -> str:
    """The module that a file below site-packages is."""
    folder, _slash, name = path.rpartition("/")
    stem = name.partition(".")[0]
    parts = [*filter(None, folder.split("/")), *([] if stem == "__init__" else [stem])]
    return ".".join(parts)
