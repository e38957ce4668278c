"""Missing modules that packages do without: accelerators, in the place of which they use Python."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from npudoctor.facts.python.frameworks import (
    EXTENSIONS,
    closure_of,
    installed_job_distributions,
    is_job_distribution,
)
from npudoctor.facts.python.installed_modules import (
    list_recorded_files,
    module_at,
    module_of,
    top_level_modules,
)
from npudoctor.host.host import Host
from npudoctor.host.python.import_kinds import FIRM, LATER, TRIED, TRIED_LATER, list_import_kinds
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.knowledge.requirements import find_lenient_row

SOURCE_LIMIT = 1 << 20
LIBRARY_LIMIT = 16 << 20
MOST = 16  # missing files of one distribution; where more are gone, nobody means to do without them
_DEPTH = 4  # modules from an import that is tried to the missing one


def find_dispensable(host: Host, copy: Distribution, missing: Sequence[str]) -> set[str]:
    """Those of the missing files without which the package and those that require it go on, as their sources
    say: each import of the module is tried, or made by a module of which that holds.

    A compiled module beside its own source is another such: Python takes the source. So is one beside its
    package that no source imports in whatever way, as paddle's _foo, which who moves the package leaves; cffi
    imports its _cffi_backend in a function. Not where a framework imports it under a condition, whatever that
    is. Reads sources, thus only of what is damaged.
    """
    if len(missing) > MOST:
        return set()
    needed = {"/".join(place) for place in EXTENSIONS.get(normalize_name(copy.name), ())}
    importers = _Importers(host, copy)
    is_strict = is_job_distribution(host, copy.name)
    site = site_of(copy)
    return {
        path
        for path in missing
        if path.partition(".")[0] not in needed
        and (
            _has_source(host, f"{site}/{path}")
            or importers.do_without(module_at(path), is_strict)
            or ("/" not in path and importers.is_imported_nowhere(module_at(path)))
        )
    }


def is_done_without(host: Host, copy: Distribution, is_gone: bool) -> bool:
    """Return whether the frameworks are known to be imported without this distribution, whoever requires
    it. Not where they are only known to work with its version.

    `is_gone`: modules of it are missing. Another damage, such as half a source, ends also an import that is
    tried: only ImportError is expected there, as requests expects it of charset_normalizer.
    """
    if is_job_distribution(host, copy.name) or not closure_of(host).of(copy.name):
        return False
    needed = host.once("needed by imports", lambda: _find_needed(host))
    return copy.folder not in needed and (is_gone or not _is_tried(host, copy, needed))


def _is_tried(host: Host, copy: Distribution, needed: Collection[str]) -> bool:
    """Return whether something that is needed tries to import it as soon as it is imported itself."""
    importers = _Importers(host, copy)
    users = {need.user.folder: need.user for need in closure_of(host).of(copy.name)}
    copies = [user for folder, user in users.items() if folder in needed]
    modules = top_level_modules(list_recorded_files(host, copy)) or [module_of(copy.name)]
    return any(kind == TRIED for module in modules for _importer, kind in importers.find(module, copies))


def _find_needed(host: Host) -> set[str]:
    """The folders of the distributions that the frameworks are not known to do without."""
    users: dict[str, list[Distribution]] = {}
    for need in closure_of(host).needs:
        row = find_lenient_row(host.knowledge, normalize_name(need.user.name), need.user.version, need.name)
        if row is None and need.installed is not None:
            users.setdefault(need.user.folder, []).append(need.installed)
    todo = [copy.folder for member, copy in installed_job_distributions(host).items() if member.tried]
    needed = set(todo)
    while todo:
        new = {copy.folder for copy in users.get(todo.pop(), ())} - needed
        needed |= new
        todo += new
    return needed


def _has_source(host: Host, path: str) -> bool:
    """Return whether a missing library has its own source beside it, and no other library there was compiled
    against it: charset_normalizer's cd is against md, and ends where md is not compiled."""
    folder, _slash, name = path.rpartition("/")
    stem = name.partition(".")[0]
    entry = host.files.stat(f"{folder}/{stem}.py") if name.endswith(".so") else None
    if entry is None or not entry.is_file or not entry.size:
        return False
    own_name = f"{folder.rpartition('/')[2]}.{stem}\0".encode()
    return not any(
        own_name in (host.files.read(f"{folder}/{other}", LIBRARY_LIMIT) or b"")
        for other in host.files.names(folder)
        if other.endswith(".so")
    )


class _Importers:
    """Who imports a module, in the sources of its distribution and of those that require that."""

    def __init__(self, host: Host, copy: Distribution) -> None:
        self._host, self._copy = host, copy
        self._texts: dict[str, list[tuple[str, bytes]]] = {}

    def do_without(self, module: str, is_strict: bool) -> bool:
        """Return whether some import of it is tried, and no other needs it."""
        own = [self._copy]
        return self._is_spared(module, own, is_strict, {module}) and self._is_spared(
            module, [*own, *self._list_users()], is_strict, {module}
        )

    def is_imported_nowhere(self, module: str) -> bool:
        """Return whether it is private by its name, and none of them imports it."""
        return self._is_unused(module, [self._copy, *self._list_users()])

    def _list_users(self) -> list[Distribution]:
        users = {need.user.folder: need.user for need in closure_of(self._host).of(self._copy.name)}
        own_name = normalize_name(self._copy.name)
        return [user for user in users.values() if normalize_name(user.name) != own_name]

    def _is_spared(
        self, module: str, copies: Sequence[Distribution], is_strict: bool, seen: set[str]
    ) -> bool:
        is_tried, firm = False, set()
        for importer, kind in self.find(module, copies):
            if kind in (TRIED, TRIED_LATER):
                is_tried = True
            elif kind == LATER and is_strict:
                return False
            elif kind == FIRM and importer not in seen:
                if "." not in importer and not importer.startswith("_"):
                    return False  # what a job imports
                firm.add(importer)
        rest = {name for name in firm if not self._is_unused(name, copies)}
        if not rest or len(seen) > _DEPTH:
            return is_tried and not rest
        # Above the missing module itself an import that is made later is one that some job makes.
        return all(self._is_spared(name, copies, True, {*seen, name}) for name in rest)

    def _is_unused(self, module: str, copies: Sequence[Distribution]) -> bool:
        """Return whether nobody imports a module that by its name is no one else's, as yaml's old `_yaml`."""
        return module.rpartition(".")[2].startswith("_") and not any(self.find(module, copies))

    def find(self, module: str, copies: Sequence[Distribution]) -> Iterator[tuple[str, str]]:
        """Yield the modules in the sources of these that import a module or one below it, and how."""
        stem = module.rpartition(".")[2].encode()  # a name: no word of it means another in a pattern
        # In an import, which may go over several lines, or in quotes.
        mention = re.compile(
            rb"^[ \t]*(?:from|import)\b[^\n(]*(?:\([^)]*)?\b%s\b|[\"'.]%s[\"']" % (stem, stem), re.MULTILINE
        )
        for copy in copies:
            for path, content in self._sources(copy):
                if stem not in content or not mention.search(content):
                    continue
                importer = module_at(path)
                text = content.decode("utf-8", "replace")
                is_package = path.endswith("/__init__.py")
                for name, kind in list_import_kinds(text, importer, is_package):
                    if importer != module and (name == module or name.startswith(f"{module}.")):
                        yield importer, kind

    def _sources(self, copy: Distribution) -> list[tuple[str, bytes]]:
        if copy.folder not in self._texts:
            site = site_of(copy)
            paths = [file.path for file in list_recorded_files(self._host, copy) if file.path.endswith(".py")]
            sizes = self._host.files.sizes(site, paths) if paths else []
            self._texts[copy.folder] = [
                (path, self._host.files.read(f"{site}/{path}", SOURCE_LIMIT) or b"")
                for path, size in zip(paths, sizes)
                if size > 0
            ]
        return self._texts[copy.folder]
