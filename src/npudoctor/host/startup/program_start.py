"""What the start of a program loads: the interpreters of scripts, the loader, libraries. Nothing is run."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.trust.trees import RootTrust
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.ldcache import read_copies
from npudoctor.host.libraries.needs import FOLDERS, TOKEN, Needs, fill_tokens, needs_of
from npudoctor.host.startup.python_start import is_python, why_not_python
from npudoctor.host.users.accounts import home_of

DEEP = 4  # scripts that are run by scripts: no kernel follows more
MOST = 512  # files of one program
_SHEBANG = 256  # the kernel reads no more of it
_STANDARD = pattern(r"(?:/usr)?/lib(?:64|32)?/(?:[^/]+-linux-gnu/)?[^/]+\Z")
# What Python is told by, which the judgement does not follow.
_OF_PYTHON = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONPLATLIBDIR")
_NOT_OURS = "\\\"'$="  # env -S would take these apart, or set a variable
PLATFORMS = ("haswell", "xeon_phi", "i686")  # to glibc, of some processors of that machine
PRELOAD = "/etc/ld.so.preload"


class ProgramStart:
    """Judges for root what the start of a program loads; every answer is None, or why not."""

    def __init__(self, files: Files, trust: RootTrust) -> None:
        self._files, self._trust = files, trust
        self._needs: dict[str, Optional[Needs]] = {}
        self._caches: dict[str, dict[str, list[str]]] = {}
        self._below: dict[str, tuple[str, ...]] = {}

    def why_not(self, argv: Sequence[str], variables: Mapping[str, str], deep: int = 0) -> Optional[str]:
        """Of a program by absolute path, that is there, with its arguments and variables.

        What a script starts by itself is by the PATH among these, or is root's own choice.
        """
        path = argv[0]
        try:
            why = self._trust.why_not(path)
            if why:
                return why
            if self._needs_of(path) is not None:
                why = self._why_not_libraries(path, variables)
                if not why and is_python(self._files, path):
                    why = self._why_not_python(argv, variables)
                return why
            words = shebang(self._files, path)
            if not words or not words[0]:
                return None  # no kernel starts it
            env = words[0].rpartition("/")[2] == "env"
            program = self._by_env(words[1:], variables) if env else words[0]
        except CannotTell as unknown:
            return unknown.reason
        if program is None or deep >= DEEP or not program.startswith("/"):
            return _("{path}: could not determine what its first line starts", path=path)
        if program != words[0]:
            why = self.why_not(words[:1], variables, deep + 1)
        return why or self.why_not([program, path], variables, deep + 1)

    def _why_not_python(self, argv: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
        isolated = "-I" in argv
        set_names = [name for name in _OF_PYTHON if variables.get(name)]
        if set_names and not isolated:
            return _(
                "{variable} is set: could not determine what {path} loads because of it",
                variable=set_names[0],
                path=argv[0],
            )

        def libraries(extension: str) -> Optional[str]:
            return self._trust.why_not(extension) or self._why_not_libraries(extension, variables)

        extensions = None if "-S" in argv else libraries
        # An isolated start knows no user's folder for packages.
        homes = [] if isolated else [variables.get("HOME") or "/root", home_of(self._files, 0) or "/root"]
        why = why_not_python(self._files, self._trust, argv[0], extensions, homes)
        for folder in variables.get("PYTHONPATH", "").split(":") if variables.get("PYTHONPATH") else ():
            why = why or (None if isolated else self._trust.why_not_modules(folder))
        script = argv[1] if len(argv) > 1 and argv[1].startswith("/") else None
        if why or script is None or isolated:
            return why
        # It imports from the folder of the script first, of its name or of its file.
        folders = {path.rpartition("/")[0] or "/" for path in (script, self._files.real(script) or script)}
        return next(filter(None, map(self._trust.why_not_imports, sorted(folders))), None)

    def _by_env(self, words: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
        """What `env` starts; None where that cannot be told."""
        name = next(iter(words[1:] if words[:1] == ["-S"] else words), "-")
        if name.startswith("-") or any(sign in word for word in words for sign in _NOT_OURS):
            return None
        if "/" in name:
            return name
        for folder in variables.get("PATH", "").split(":"):
            if not folder.startswith("/") or self._trust.why_not_folder(folder):
                return None  # others could put one there, before the one that is found
            entry = self._files.stat(f"{folder}/{name}")
            if entry is not None and entry.is_program:
                return f"{folder}/{name}"
        return None

    def _why_not_libraries(self, path: str, variables: Mapping[str, str]) -> Optional[str]:
        """Every file that the loader could take for a library, and every folder in which it looks.

        More than it takes: all of one name, from all folders that any of the files names.
        """
        program = self._needs_of(path) or Needs("")
        places = dict.fromkeys(self._first_places(path, program, variables))
        if why := self._why_not_places(places):
            return why
        lists = [variables.get(name, "") for name in ("LD_PRELOAD", "LD_AUDIT")]
        lists.append(self._files.text(PRELOAD) or "")
        preloaded = [library for library in re.split(r"[\s:]+", " ".join(lists)) if library]
        for library in preloaded:
            # What is missing the loader passes over; others must not be able to make it.
            if "/" in library and (why := self._trust.why_not_file(library)):
                return why
        todo, seen = deque([path]), set[str]()
        for name in preloaded:
            todo.extend(self._candidates(name, path, tuple(places), program.machine))
        # Another loader than the system's own has a cache and folders of its own.
        loader = program.interpreter
        is_standard = loader is None or (_STANDARD.match(loader) is not None and "musl" not in loader)
        while todo:
            file = todo.popleft()
            if file in seen:
                continue
            if len(seen) == MOST:
                return _("{path} loads more than {most} files", path=path, most=MOST)
            seen.add(file)
            if why := self._trust.why_not(file):
                return why
            needs = self._needs_of(file)
            if needs is None:
                continue  # the loader passes over what is no library
            for entry in (*needs.rpath, *needs.runpath):
                places.update(dict.fromkeys(self._expand(entry, file, needs.machine)))
            if why := self._why_not_places(places):
                return why
            todo.extend([needs.interpreter] if needs.interpreter else [])
            for name in needs.needed:
                paths = list(self._candidates(name, file, tuple(places), needs.machine))
                if not paths and not is_standard:
                    return _(
                        "{path}: could not determine where {loader} looks for {name}",
                        path=path,
                        loader=loader,
                        name=name,
                    )
                todo.extend(paths)
        return None

    def _first_places(self, path: str, program: Needs, variables: Mapping[str, str]) -> Iterator[str]:
        """Where the loader looks for whatever it is: by the program, by its variables, and at last."""
        value = variables.get("LD_LIBRARY_PATH", "")
        # An empty entry is the working directory, which is not a place of root's.
        named = re.split("[:;]", value) if value else ()
        for entry in (*program.rpath, *program.runpath, *named):
            yield from self._expand(entry, path, program.machine)
        yield from (f"/lib/{program.machine}-linux-gnu", f"/usr/lib/{program.machine}-linux-gnu", *FOLDERS)

    def _why_not_places(self, places: Mapping[str, None]) -> Optional[str]:
        """Of folders in which the loader looks, and those in them for some processors."""
        for place in places:
            why = self._trust.why_not_folder(place)
            if why:
                return why
            if place not in self._below:
                self._below[place] = (place, *self._trust.find_processor_folders(place))
            for below in self._below[place][1:]:
                why = why or self._trust.why_not_folder(below)
            if why:
                return why
        return None

    def _candidates(self, name: str, by: str, places: Sequence[str], machine: str) -> Iterator[str]:
        paths: Iterable[str]
        if "/" in name:
            paths = self._expand(name, by, machine)
        else:
            if machine not in self._caches:
                self._caches[machine] = read_copies(self._files, machine)
            folders = (folder for place in places for folder in self._below[place])
            paths = (*(f"{folder}/{name}" for folder in folders), *self._caches[machine].get(name, ()))
        for path in paths:
            # Whether there is such a file by the working directory is not to be known.
            if not path.startswith("/") or self._files.stat(path) is not None:
                yield path

    def _expand(self, text: str, file: str, machine: str) -> Iterator[str]:
        """The paths that an entry may mean, as $ORIGIN may be by name or by file."""
        if not TOKEN.search(text):
            yield text
            return
        real = self._files.real(file) or file
        origins = dict.fromkeys((file.rpartition("/")[0] or "/", real.rpartition("/")[0] or "/"))
        libs = ("lib64", "lib", "lib32", f"lib/{machine}-linux-gnu") if "LIB" in text else ("",)
        platforms = (machine, *PLATFORMS) if "PLATFORM" in text else ("",)
        for origin, lib, platform in itertools.product(origins, libs, platforms):
            yield fill_tokens(text, {"ORIGIN": origin, "LIB": lib, "PLATFORM": platform})

    def _needs_of(self, path: str) -> Optional[Needs]:
        if path not in self._needs:
            self._needs[path] = needs_of(self._files, path)
        return self._needs[path]


def shebang(files: Files, path: str) -> list[str]:
    """The words of a script's first line, without "#!"; none for all else."""
    line = (files.read(path, _SHEBANG) or b"").split(b"\n", 1)[0].decode("utf-8", "surrogateescape")
    return re.split(r"[ \t]+", line[2:].strip(" \t")) if line.startswith("#!") else []
