"""Finds the file that the loader takes for each library, as ld.so(8) of glibc does, by reading alone.

Nothing is run, so this also works for an image or another machine. Copies for newer processors
(glibc-hwcaps) are not considered: they lie beside the plain libraries and have the same names.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass, field
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.ldcache import read_cache
from npudoctor.host.libraries.library import BadLibrary, Libraries, Library
from npudoctor.host.libraries.needs import DEFAULT_FOLDERS, fill_tokens, split_path

MAX_OBJECTS = 4096  # objects of one process
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


@dataclass(frozen=True)
class LoadedLibrary:
    """A library in the process.

    - `path`: as the loader finds it, links not resolved.
    - `via`: how it is found: "RPATH", "LD_LIBRARY_PATH", "RUNPATH", "cache", "default", "preload", or "path"
      for a name with a slash.
    - `entry`: the folder as it is written in that search path.
    - `chain`: the objects that led to it, nearest first.
    """

    name: str
    path: str
    via: str
    entry: str
    library: Library = field(repr=False)
    chain: tuple[LoadedLibrary, ...] = field(default=(), repr=False)

    @property
    def needed_by(self) -> Optional[str]:
        """The path of the object that needed it first; None for the program itself."""
        return self.chain[0].path if self.chain else None


@dataclass(frozen=True)
class MissingLibrary:
    """A library that the loader does not find, or that is broken. `needed_by`: the path of who needs it.

    `broken`: why it is broken, "" if it was not found; `path`, `via` and `entry` as of LoadedLibrary.
    """

    name: str
    needed_by: str
    broken: str = ""
    path: str = ""
    via: str = ""
    entry: str = ""


class Loader:
    """The loader of one process: libraries that are loaded already satisfy later needs of their name.

    `working_folder`: what relative entries of search paths refer to; None if it is unknown.
    """

    def __init__(
        self,
        files: Files,
        libraries: Libraries,
        variables: Mapping[str, str],
        *,
        machine: str,
        working_folder: Optional[str] = None,
    ) -> None:
        self._files, self._libraries = files, libraries
        self._machine = machine
        self._working_folder = working_folder
        # Of the machines in elf._MACHINES these two have no 64-bit form.
        self._bits = 32 if machine in ("i386", "arm") else 64
        self._entries = split_path(variables.get("LD_LIBRARY_PATH", ""), ";:")
        self._preloads = variables.get("LD_PRELOAD", "").replace(":", " ").split()
        self._cache: Optional[dict[str, str]] = None
        self._main: Optional[LoadedLibrary] = None
        self.loaded: list[LoadedLibrary] = []
        self.missing: list[MissingLibrary] = []
        # Those of LD_PRELOAD and /etc/ld.so.preload; the loader ignores those that it cannot load.
        self.preloaded: list[LoadedLibrary] = []
        self._loaded_by_name: dict[str, LoadedLibrary] = {}
        self._loaded_by_path: dict[Optional[str], LoadedLibrary] = {}

    def start(self, program: str) -> None:
        """Load a program, the preloaded libraries, and all that they need."""
        library = self._libraries.read(program)
        if library is None:
            raise CannotTell(_("the program {path} does not exist", path=program))
        # $ORIGIN of the program is the folder of its resolved file: the loader reads /proc/self/exe.
        self._main = LoadedLibrary(program, library.path, "path", "", library)
        self._add(self._main)
        todo = deque([self._main])
        for name in [*self._preloads, *(self._files.text("/etc/ld.so.preload") or "").split()]:
            loaded = self._find(name, (self._main,))
            if isinstance(loaded, LoadedLibrary):
                todo.append(loaded)
                self.preloaded.append(loaded)
        self._load_needs(todo)

    def dlopen(self, name: str) -> Optional[LoadedLibrary]:
        """Load a library by path or name with all that it needs, as dlopen(3) of the program does; None if
        it is missing or broken."""
        chain = (self._main,) if self._main else ()
        loaded = self._find(name, chain)
        if isinstance(loaded, LoadedLibrary):
            self._load_needs(deque([loaded]))
            return loaded
        self.missing.append(loaded)
        return None

    def load_for(self, names: Sequence[str], user: str) -> None:
        """Load libraries as if an object `by` without search paths of its own needed them."""
        user_object = LoadedLibrary(
            user, user, "path", "", Library(user, self._bits, self._machine, needed=tuple(names))
        )
        self._load_needs(deque([user_object]))

    def find_loaded(self, name: str) -> Optional[LoadedLibrary]:
        """The object in the process that satisfies a need of this name; None if there is none."""
        return self._loaded_by_name.get(name)

    def find_user(self, name: str) -> Optional[LoadedLibrary]:
        """The first object that needs a library of this name; None if none does."""
        return next((loaded for loaded in self.loaded if name in loaded.library.needed), None)

    def find_without_environment(self, name: str) -> Optional[str]:
        """The file that would be loaded for a needed library without LD_LIBRARY_PATH and LD_PRELOAD.

        None if there is none, if it is broken, or if nothing needs it.
        """
        user = self.find_user(name)
        for path, via, _entry in self._candidates(name, (user, *user.chain)) if user else ():
            if via == "LD_LIBRARY_PATH":
                continue
            try:
                if self._read_usable(path) is not None:
                    return path
            except CannotTell:
                return None
        return None

    def _load_needs(self, todo: deque[LoadedLibrary]) -> None:
        """Load everything that these objects need, breadth first, as the loader does."""
        visited: set[str] = set()
        while todo and len(self.loaded) < MAX_OBJECTS:
            loaded = todo.popleft()
            if loaded.path in visited:
                continue
            visited.add(loaded.path)
            for name in loaded.library.needed:
                count_before = len(self.loaded)
                library = self._find(name, (loaded, *loaded.chain))
                if isinstance(library, MissingLibrary):
                    self.missing.append(library)
                elif len(self.loaded) > count_before:
                    todo.append(library)

    def _find(self, name: str, chain: tuple[LoadedLibrary, ...]) -> LoadedLibrary | MissingLibrary:
        """The library that a name means to the first object of `chain`; it is loaded if it is not yet."""
        if name in self._loaded_by_name:
            return self._loaded_by_name[name]
        user = chain[0].path if chain else ""
        if name in LOADERS.values() and "/" not in name:
            # The loader itself is already in every process: no file is looked for.
            path = (self._main.library.interpreter if self._main else None) or f"/lib64/{name}"
            library = Library(path, self._bits, self._machine, soname=name)
            return self._add_unless_loaded(LoadedLibrary(name, path, "path", "", library))
        for path, via, entry in self._candidates(name, chain):
            try:
                usable_library = self._read_usable(path)
            except BadLibrary as error:
                return MissingLibrary(name, user, error.reason, path, via, entry)
            if usable_library is not None:
                return self._add_unless_loaded(LoadedLibrary(name, path, via, entry, usable_library, chain))
        return MissingLibrary(name, user)

    def _add_unless_loaded(self, loaded: LoadedLibrary) -> LoadedLibrary:
        """Add a library, unless the same file is loaded already under another name."""
        existing = self._loaded_by_path.get(self._files.real(loaded.path))
        if existing is not None:
            self._loaded_by_name[loaded.name] = existing
            return existing
        self._add(loaded)
        return loaded

    def _add(self, loaded: LoadedLibrary) -> None:
        self.loaded.append(loaded)
        self._loaded_by_path[self._files.real(loaded.path)] = loaded
        for name in (loaded.name, loaded.library.soname):
            if name:
                self._loaded_by_name.setdefault(name, loaded)

    def _read_usable(self, path: str) -> Optional[Library]:
        """The library at a path; None if the loader goes on to the next candidate: the file is missing, may
        not be opened, or is for another machine. BadLibrary if the loader stops there."""
        try:
            library = self._libraries.read(path)
        except CannotTell as error:
            cause = error.__cause__
            is_denied = isinstance(cause, OSError) and cause.errno == errno.EACCES
            if is_denied and self._files.root == "/":
                return None  # the job's loader has our rights, and skips what it may not open
            raise
        if library is None or (library.bits, library.machine) != (self._bits, self._machine):
            return None
        return library

    def _candidates(self, name: str, chain: tuple[LoadedLibrary, ...]) -> Iterator[tuple[str, str, str]]:
        """Yield the files that the loader tries, in its order, each with `via` and `entry`.

        ld.so(8): DT_RPATH of the object and of those that led to it, unless it has DT_RUNPATH;
        LD_LIBRARY_PATH; DT_RUNPATH of the object alone; the cache; the default folders.
        """
        if "/" in name:
            path = self._expand(name, chain[0] if chain else None)
            yield from ((path, "path", "") for path in self._make_absolute(path))
            return
        runpath = chain[0].library.runpath if chain else None
        folders: list[tuple[str, str, Optional[LoadedLibrary]]] = []
        if runpath is None:
            main = (self._main,) if self._main and self._main not in chain else ()
            for loaded in (*chain, *main):
                if loaded.library.runpath is None:
                    entries = split_path(loaded.library.rpath or "", ":")
                    folders += (("RPATH", entry, loaded) for entry in entries)
        folders += (("LD_LIBRARY_PATH", entry, self._main) for entry in self._entries)
        if chain:
            folders += (("RUNPATH", entry, chain[0]) for entry in split_path(runpath or "", ":"))
        for via, entry, origin in folders:
            for folder in self._make_absolute(self._expand(entry, origin) or "."):
                yield f"{folder.rstrip('/')}/{name}", via, entry
        if not (chain and chain[0].library.nodeflib):
            if self._cache is None:
                self._cache = read_cache(self._files, self._machine)
            if name in self._cache:
                yield self._cache[name], "cache", ""
            for folder in (*self._multiarch_folders(), *DEFAULT_FOLDERS):
                yield f"{folder}/{name}", "default", folder

    def _make_absolute(self, path: str) -> Iterator[str]:
        """Yield a path, made absolute by the working directory; nothing if that is unknown."""
        if path.startswith("/"):
            yield path
        elif self._working_folder is not None:
            yield self._working_folder if path == "." else f"{self._working_folder.rstrip('/')}/{path}"

    def _expand(self, text: str, origin: Optional[LoadedLibrary]) -> str:
        """Replace $ORIGIN, $LIB and $PLATFORM."""
        if "$" not in text:
            return text
        words = {
            "ORIGIN": origin.path.rsplit("/", 1)[0] or "/" if origin else ".",
            "LIB": next(
                (folder[1:] for folder in self._multiarch_folders() if folder.startswith("/lib/")), "lib64"
            ),
            "PLATFORM": self._machine,
        }
        return fill_tokens(text, words)

    def _multiarch_folders(self) -> tuple[str, ...]:
        """The multiarch folders of Debian and its derivatives, if the machine has them."""
        folder = f"/lib/{self._machine}-linux-gnu"
        return (folder, f"/usr{folder}") if self._files.stat(folder) else ()
