"""Finds what an import would load, by the search path alone; nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.archives import list_members
from npudoctor.host.fs.files import Files
from npudoctor.host.python.interpreter import Layout
from npudoctor.host.startup.site_folders import is_site, read_site_folders

TEXT_LIMIT = 1 << 20
# importlib's order: extensions before sources before byte code without a source.
_SOURCES = (".py", ".pyc")
# A package that says itself where its parts lie, or that passes for another one.
_DYNAMIC = pattern(r"__path__|declare_namespace|sys\.modules")
_FINDER = pattern(r"__editable___\w+_finder\.py\Z")
_MAPPING = pattern(r"^(MAPPING|NAMESPACES)\b[^=\n]*=[ \t]*(\{.*\})[ \t\r]*$", re.MULTILINE)


@dataclass(frozen=True)
class Module:
    """What an import finds. `file`: what it runs; None for a namespace, a folder without __init__.py.
    `folders`: where its parts are looked for; none where it is no package. `archived`: in a zip file."""

    file: Optional[str]
    folders: tuple[str, ...] = ()
    is_archived: bool = False


class Modules:
    """The modules of one interpreter, in the order of its search path."""

    def __init__(self, files: Files, layout: Layout, first_folders: Sequence[str] = ()) -> None:
        """`first_folders`: folders that the job searches first."""
        self._files = files
        self._path = [folder for folder in (*first_folders, *layout.search_path) if folder.startswith("/")]
        self._layout = layout
        tag = "".join((layout.version or "").split(".")[:2])
        machine = layout.machine or "x86_64"
        tagged = [f".cpython-{tag}-{machine}-linux-{libc}.so" for libc in ("gnu", "musl")] if tag else []
        self._suffixes = (*[*tagged, ".abi3.so", ".so"], *_SOURCES)
        self._names: dict[str, frozenset[str]] = {}
        self._module_by_name: dict[str, Optional[Module]] = {}
        self._editable_path_by_package: Optional[dict[str, str]] = None

    def find(self, name: str) -> Optional[Module]:
        """What `import name` finds, where name may have dots; None if nothing is found."""
        first, *rest = name.split(".")
        module = self.find_top(first)
        for part in rest:
            module = self._find_in(module.folders, part) if module is not None else None
        return module

    def find_top(self, name: str) -> Optional[Module]:
        """What `import name` finds for a name without dots; None if nothing is found."""
        if name not in self._module_by_name:
            self._module_by_name[name] = self._find_in(self._path, name) or self._find_by_finder(name)
        return self._module_by_name[name]

    def find_part(self, package: Module, name: str) -> Optional[Module]:
        """What an import finds for a name without dots in a package; None if nothing is found."""
        return self._find_in(package.folders, name)

    def is_missing(self, name: str) -> bool:
        """Whether it is certain that nothing of this name can be imported."""
        return self.find(name) is None and not self.is_dynamic(name)

    def is_dynamic(self, name: str) -> bool:
        """Whether code that was not run may decide where a module or its submodules are found."""
        # Whether some file may have put in a finder of its own.
        if (
            self._layout.unread
            or not self._layout.version
            or any(read_site_folders(self._files, site).unread for site in filter(is_site, self._path))
        ):
            return True
        first = name.split(".")[0]
        top, quoted = self.find_top(first), f"'{first}'"
        for site in filter(is_site, self._path):
            for file in self.names(site):
                # One that makes this package before anything looks for it, as setuptools' -nspkg.pth.
                if file.endswith(".pth") and quoted in (self._files.text(f"{site}/{file}", TEXT_LIMIT) or ""):
                    return True
        if top is None or top.file is None or "." not in name:
            return False
        return top.is_archived or _DYNAMIC.search(self.text(top.file)) is not None

    def text(self, path: str) -> str:
        """The source of a module; empty where it is none."""
        return (self._files.text(path, TEXT_LIMIT) or "") if path.endswith(".py") else ""

    def names(self, folder: str) -> frozenset[str]:
        """What lies in a folder, or in a zip file; Python passes over what it may not look into."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(self._files.names(folder))
            except CannotTell:
                self._names[folder] = frozenset()
        return self._names[folder]

    def _find_in(self, folders: Sequence[str], name: str) -> Optional[Module]:
        portions: list[str] = []
        for folder in folders:
            module = (
                self._find_in_folder(folder, name)
                if self.names(folder)
                else self._find_in_archive(folder, name)
            )
            if module is not None and module.file is not None:
                return module
            portions += module.folders if module is not None else ()
        return Module(None, tuple(portions)) if portions else None

    def _find_in_folder(self, folder: str, name: str) -> Optional[Module]:
        names, path = self.names(folder), f"{folder}/{name}"
        if name in names:
            package_names = self.names(path)
            for suffix in self._suffixes if package_names else ():
                if f"__init__{suffix}" in package_names:
                    return Module(f"{path}/__init__{suffix}", (path,))
        for suffix in self._suffixes:
            if f"{name}{suffix}" in names:
                return Module(f"{path}{suffix}")
        entry = self._files.stat(path) if name in names else None
        return Module(None, (path,)) if entry is not None and entry.is_dir else None

    def _find_in_archive(self, folder: str, name: str) -> Optional[Module]:
        """Of a zip file on the search path, or a folder in one."""
        archive, inner, entry = folder, "", None
        # The file on the way to what would be a folder, and what of the way lies in it.
        while archive not in ("", "/"):
            entry = self._files.stat(archive)
            if entry is not None:
                break
            archive, _slash, last = archive.rpartition("/")
            inner = f"{last}/{inner}"
        if entry is None or not entry.is_file:
            return None
        archive_names, path = list_members(self._files, archive), f"{inner}{name}"
        for suffix in _SOURCES:
            if f"{path}/__init__{suffix}" in archive_names:
                return Module(f"{archive}/{path}/__init__{suffix}", (f"{folder}/{name}",), is_archived=True)
            if f"{path}{suffix}" in archive_names:
                return Module(f"{archive}/{path}{suffix}", is_archived=True)
        return None

    def _find_by_finder(self, name: str) -> Optional[Module]:
        """By the tables of editable installs, which setuptools asks last."""
        if self._editable_path_by_package is None:
            self._editable_path_by_package = {}
            finders = [
                f"{site}/{file}"
                for site in filter(is_site, self._path)
                for file in sorted(filter(_FINDER.match, self.names(site)))
            ]
            for finder in finders:
                for kind, literal in _MAPPING.findall(self.text(finder)):
                    try:
                        table = ast.literal_eval(literal)
                    except (ValueError, SyntaxError, RecursionError, MemoryError):
                        continue
                    for package, path in table.items() if kind == "MAPPING" else ():
                        # A relative path means the folder in which the finder was written: unknown here.
                        if str(path).startswith("/"):
                            self._editable_path_by_package[str(package)] = str(path)
        target = self._editable_path_by_package.get(name)
        if target is None:
            return None
        parent, _slash, last = target.rpartition("/")
        return self._find_in_folder(parent, last)
