"""Judges what the start of a program loads: interpreters of scripts, the loader, libraries; runs nothing."""

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
from npudoctor.host.libraries.ldcache import read_all_copies
from npudoctor.host.libraries.needs import DEFAULT_FOLDERS, TOKEN, Needs, fill_tokens, read_needs
from npudoctor.host.startup.python_start import is_python, why_not_python
from npudoctor.host.users.accounts import home_of

MAX_DEPTH = 4  # scripts that are interpreters of scripts: exec_binprm() of the kernel follows no more
MAX_FILES = 512  # of one program, above which it is not trusted
_SHEBANG_BYTES = 256  # BINPRM_BUF_SIZE: the kernel reads no more of the first line
_STANDARD = pattern(r"(?:/usr)?/lib(?:64|32)?/(?:[^/]+-linux-gnu/)?[^/]+\Z")
# Variables that change where Python looks for modules in ways that are not followed here.
_PYTHON_VARIABLES = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONPLATLIBDIR")
_UNSUPPORTED_SIGNS = "\\\"'$="  # env -S interprets these, and NAME=value sets a variable (env(1))
PLATFORMS = ("haswell", "xeon_phi", "i686")  # values of $PLATFORM in glibc on some x86 processors
PRELOAD = "/etc/ld.so.preload"


class ProgramStart:
    """Judges for root what the start of a program loads; each answer is None, or the reason against it."""

    def __init__(self, files: Files, trust: RootTrust) -> None:
        self._files, self._trust = files, trust
        self._needs: dict[str, Optional[Needs]] = {}
        self._caches: dict[str, dict[str, list[str]]] = {}
        self._with_subfolders: dict[str, tuple[str, ...]] = {}

    def why_untrusted(
        self, argv: Sequence[str], variables: Mapping[str, str], depth: int = 0
    ) -> Optional[str]:
        """Why root must not start an existing program (argv[0] is absolute) with these variables; else None.

        What a script starts while it runs is not judged: it comes from PATH, which is judged elsewhere.
        """
        path = argv[0]
        try:
            why = self._trust.why_not(path)
            if why:
                return why
            if self._read_needs(path) is not None:
                why = self._why_not_libraries(path, variables)
                if not why and is_python(self._files, path):
                    why = self._why_not_python(argv, variables)
                return why
            words = read_shebang(self._files, path)
            if not words or not words[0]:
                return None  # neither ELF nor a script: the kernel says ENOEXEC
            is_env = words[0].rpartition("/")[2] == "env"
            program = self._find_by_env(words[1:], variables) if is_env else words[0]
        except CannotTell as unknown:
            return unknown.reason
        # A relative interpreter depends on the working directory.
        if program is None or depth >= MAX_DEPTH or not program.startswith("/"):
            return _("{path}: could not determine what its first line starts", path=path)
        if program != words[0]:
            why = self.why_untrusted(words[:1], variables, depth + 1)
        return why or self.why_untrusted([program, path], variables, depth + 1)

    def _why_not_python(self, argv: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
        is_isolated = "-I" in argv
        set_names = [name for name in _PYTHON_VARIABLES if variables.get(name)]
        if set_names and not is_isolated:
            return _(
                "{variable} is set: could not determine what {path} loads because of it",
                variable=set_names[0],
                path=argv[0],
            )

        def judge_extension(extension: str) -> Optional[str]:
            return self._trust.why_not(extension) or self._why_not_libraries(extension, variables)

        extensions = None if "-S" in argv else judge_extension
        # With -I Python ignores the user's site-packages.
        homes = [] if is_isolated else [variables.get("HOME") or "/root", home_of(self._files, 0) or "/root"]
        why = why_not_python(self._files, self._trust, argv[0], extensions, homes)
        for folder in variables.get("PYTHONPATH", "").split(":") if variables.get("PYTHONPATH") else ():
            why = why or (None if is_isolated else self._trust.why_not_modules(folder))
        script = argv[1] if len(argv) > 1 and argv[1].startswith("/") else None
        if why or script is None or is_isolated:
            return why
        # Python puts the folder of the script first on its search path; before or after its links.
        folders = {path.rpartition("/")[0] or "/" for path in (script, self._files.real(script) or script)}
        return next(filter(None, map(self._trust.why_not_imports, sorted(folders))), None)

    def _find_by_env(self, words: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
        """The program that `env` starts; None if that cannot be determined."""
        name = next(iter(words[1:] if words[:1] == ["-S"] else words), "-")
        if name.startswith("-") or any(sign in word for word in words for sign in _UNSUPPORTED_SIGNS):
            return None
        if "/" in name:
            return name
        for folder in variables.get("PATH", "").split(":"):
            if not folder.startswith("/") or self._trust.why_not_folder(folder):
                return None  # others could put a program of that name here, which env would find first
            entry = self._files.stat(f"{folder}/{name}")
            if entry is not None and entry.is_program:
                return f"{folder}/{name}"
        return None

    def _why_not_libraries(self, path: str, variables: Mapping[str, str]) -> Optional[str]:
        """Judge every file that the loader could take for a library, and every folder in which it looks.

        These are more than it takes: all files of a name, from all folders that any of the files names.
        """
        program = self._read_needs(path) or Needs("")
        folders = dict.fromkeys(self._initial_folders(path, program, variables))
        if why := self._why_not_folders(folders):
            return why
        lists = [variables.get(name, "") for name in ("LD_PRELOAD", "LD_AUDIT")]
        lists.append(self._files.text(PRELOAD) or "")
        preloaded = [library for library in re.split(r"[\s:]+", " ".join(lists)) if library]
        for library in preloaded:
            # The loader ignores a missing preload; but nobody else must be able to create it.
            # A name without a slash is searched in the folders that are judged below.
            if "/" in library and (why := self._trust.why_not_file(library)):
                return why
        waiting, visited = deque([path]), set[str]()
        for name in preloaded:
            waiting.extend(self._candidates(name, path, tuple(folders), program.machine))
        # A loader other than the system's glibc, such as musl's, has its own cache and default folders.
        loader = program.interpreter
        is_standard = loader is None or (_STANDARD.match(loader) is not None and "musl" not in loader)
        while waiting:
            file = waiting.popleft()
            if file in visited:
                continue
            if len(visited) == MAX_FILES:
                return _("{path} loads more than {most} files", path=path, most=MAX_FILES)
            visited.add(file)
            if why := self._trust.why_not(file):
                return why
            needs = self._read_needs(file)
            if needs is None:
                continue  # the loader ignores a file that is not ELF
            for entry in (*needs.rpath, *needs.runpath):
                folders.update(dict.fromkeys(self._expand(entry, file, needs.machine)))
            if why := self._why_not_folders(folders):
                return why
            waiting.extend([needs.interpreter] if needs.interpreter else [])
            for name in needs.needed:
                paths = list(self._candidates(name, file, tuple(folders), needs.machine))
                if not paths and not is_standard:
                    return _(
                        "{path}: could not determine where {loader} looks for {name}",
                        path=path,
                        loader=loader,
                        name=name,
                    )
                waiting.extend(paths)
        return None

    def _initial_folders(self, path: str, program: Needs, variables: Mapping[str, str]) -> Iterator[str]:
        """Yield the folders in which the loader looks: of the program, of its variables, and the defaults."""
        value = variables.get("LD_LIBRARY_PATH", "")
        # An empty entry means the working directory, and is yielded as "": no folder that root trusts.
        entries = re.split("[:;]", value) if value else ()
        for entry in (*program.rpath, *program.runpath, *entries):
            yield from self._expand(entry, path, program.machine)
        yield from (
            f"/lib/{program.machine}-linux-gnu",
            f"/usr/lib/{program.machine}-linux-gnu",
            *DEFAULT_FOLDERS,
        )

    def _why_not_folders(self, folders: Mapping[str, None]) -> Optional[str]:
        """Judge folders in which the loader looks, and their subfolders for certain processors."""
        for folder in folders:
            why = self._trust.why_not_folder(folder)
            if why:
                return why
            if folder not in self._with_subfolders:
                self._with_subfolders[folder] = (folder, *self._trust.find_processor_folders(folder))
            for subfolder in self._with_subfolders[folder][1:]:
                why = why or self._trust.why_not_folder(subfolder)
            if why:
                return why
        return None

    def _candidates(self, name: str, file: str, search_folders: Sequence[str], machine: str) -> Iterator[str]:
        paths: Iterable[str]
        if "/" in name:
            paths = self._expand(name, file, machine)
        else:
            if machine not in self._caches:
                self._caches[machine] = read_all_copies(self._files, machine)
            folders = (
                folder for search_folder in search_folders for folder in self._with_subfolders[search_folder]
            )
            paths = (*(f"{folder}/{name}" for folder in folders), *self._caches[machine].get(name, ()))
        for path in paths:
            # A relative path depends on the working directory: it counts as existing.
            if not path.startswith("/") or self._files.stat(path) is not None:
                yield path

    def _expand(self, text: str, file: str, machine: str) -> Iterator[str]:
        """Yield the paths that an entry may mean; $ORIGIN may be the folder before or after links."""
        if not TOKEN.search(text):
            yield text
            return
        real = self._files.real(file) or file
        origins = dict.fromkeys((file.rpartition("/")[0] or "/", real.rpartition("/")[0] or "/"))
        libs = ("lib64", "lib", "lib32", f"lib/{machine}-linux-gnu") if "LIB" in text else ("",)
        platforms = (machine, *PLATFORMS) if "PLATFORM" in text else ("",)
        for origin, lib, platform in itertools.product(origins, libs, platforms):
            yield fill_tokens(text, {"ORIGIN": origin, "LIB": lib, "PLATFORM": platform})

    def _read_needs(self, path: str) -> Optional[Needs]:
        if path not in self._needs:
            self._needs[path] = read_needs(self._files, path)
        return self._needs[path]


def read_shebang(files: Files, path: str) -> list[str]:
    """The words of a script's first line, without "#!"; empty if the file is not a script."""
    line = (files.read(path, _SHEBANG_BYTES) or b"").split(b"\n", 1)[0].decode("utf-8", "surrogateescape")
    return re.split(r"[ \t]+", line[2:].strip(" \t")) if line.startswith("#!") else []
