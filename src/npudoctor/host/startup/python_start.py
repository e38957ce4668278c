"""Judges what the start of a Python loads before any code of its caller: above all its standard library.

With `-I -S` Python reads only pyvenv.cfg and its standard library, and no site-packages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Callable, Optional

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.trust.trees import RootTrust
from npudoctor.host.fs.files import Files
from npudoctor.host.startup.site_folders import read_site_folders

_NAME = pattern(r"python(\d+)\.(\d+)[a-z]*\Z")
_ANY_NAME = pattern(r"python[\d.]*[a-z]*\Z")
_HOME = pattern(r"home[ \t]+=[ \t]+/")  # the form that all releases accept; before 3.11 "home=/x" is ignored
_LIBS = ("lib", "lib64", "lib32", "libx32")
# Packages of the standard library that are imported at the start, or to print a traceback.
_PACKAGES = ("encodings", "collections", "importlib", "re", "_pyrepl")
_DEBIAN = ("lib/python3/dist-packages", "local/lib/python{}/dist-packages")


def is_python(files: Files, path: str) -> bool:
    """Whether a program is a Python, by its name or that of the file it links to."""
    return any(
        _ANY_NAME.match(path_or_real.rpartition("/")[2]) for path_or_real in (path, files.real(path) or path)
    )


def has_version_in_name(files: Files, path: str) -> bool:
    """Whether the name of a program's file has its version, such as python3.11."""
    return _NAME.match((files.real(path) or "").rpartition("/")[2]) is not None


Judge = Callable[[str], Optional[str]]


def why_not_python(
    files: Files, trust: RootTrust, path: str, libraries: Optional[Judge], homes: Sequence[str] = ("/root",)
) -> Optional[str]:
    """Why root may not start a Python whose program and libraries are judged; None when it may.

    `libraries` judges what an extension loads. None: it is started without its folders for packages; else
    anything in them may be imported, and all of the standard library. `homes` may have folders of the user.
    """
    start = _StartJudge(files, trust, path, libraries, homes)
    try:
        start.judge()
    except _Distrust as why:
        return str(why)
    return None


class _Distrust(Exception):
    """Root must not start this Python; the text says why."""


class _StartJudge:
    """Judges the start of one Python for root."""

    def __init__(
        self, files: Files, trust: RootTrust, path: str, libraries: Optional[Judge], homes: Sequence[str]
    ) -> None:
        self._homes_of_user = homes
        self._files, self._trust, self._path, self._libraries = files, trust, path, libraries
        match = _NAME.match((files.real(path) or path).rpartition("/")[2])
        if match is None:
            self._version, self._zip = "", ""
        else:
            self._version, self._zip = f"{match[1]}.{match[2]}", f"python{match[1]}{match[2]}.zip"

    def judge(self) -> None:
        if not self._version:
            raise self._unknown_library()
        for folder in self._program_folders():
            self._require_trust(self._trust.why_not_folder(folder))
            names = self._files.names(folder)
            # A Python in its build folder (pybuilddir.txt), or with a search path of its own (._pth file).
            is_built_here = self._files.lstat(f"{folder}/Modules/Setup.local") is not None
            if is_built_here or "pybuilddir.txt" in names or any(name.endswith("._pth") for name in names):
                raise self._unknown_library()
        # From where it looks for its standard library upwards: what pyvenv.cfg calls its home, else the
        # folder of its file. Before 3.11 the pyvenv.cfg beside its file counts, since then that by its name.
        real = (self._files.real(self._path) or self._path).rpartition("/")[0] or "/"
        homes: dict[str, list[str]] = {}
        for folder in self._program_folders():
            homes[folder] = []
            for config_folder in dict.fromkeys((folder, folder.rpartition("/")[0] or "/")):
                self._require_trust(self._trust.why_not_folder(config_folder))
                if self._files.lstat(f"{config_folder}/pyvenv.cfg") is not None:
                    self._require_trust(self._trust.why_not(f"{config_folder}/pyvenv.cfg"))
                    homes[folder] += self._read_homes(f"{config_folder}/pyvenv.cfg")
        all_homes = [home for found_homes in homes.values() for home in found_homes]
        starts = dict.fromkeys(all_homes if homes.get(real) else [real, *all_homes])
        prefixes = [self._prefix_above(folder) for folder in starts]
        if self._libraries is not None:
            above = (folder.rpartition("/")[0] or "/" for folder in self._program_folders())
            self._judge_sites([*dict.fromkeys((*above, *prefixes))])

    def _program_folders(self) -> Iterator[str]:
        """The folders of the program and of every link on the way to its file, in this order."""
        names = [step for step, entry in self._files.steps(self._path) if not entry.is_dir]
        folders = (self._path.rpartition("/")[0] or "/", *(name.rpartition("/")[0] or "/" for name in names))
        return iter(dict.fromkeys(folders))

    def _read_homes(self, configuration: str) -> Iterator[str]:
        for line in (self._files.text(configuration) or "").splitlines():
            key, _equals, value = line.partition("=")
            if key.strip().lower() == "home":
                home = value.strip()
                if not home.startswith("/") or not _HOME.match(line):
                    raise self._unknown_library()
                yield home
                program = f"{home}/{self._path.rpartition('/')[2]}"
                yield (self._files.real(program) or program).rpartition("/")[0] or "/"

    def _prefix_above(self, folder: str) -> str:
        """The nearest folder above that has the standard library of this version; the library is judged.

        Without one Python uses the prefix that it was compiled with, which cannot be read.
        """
        prefix = folder
        while prefix != "/":  # where releases before 3.11 do not look
            self._require_trust(self._trust.why_not_folder(prefix))
            libraries = [f"{prefix.rstrip('/')}/{lib}/python{self._version}" for lib in _LIBS]
            landmarks = (f"{library}/{name}" for library in libraries for name in ("os.py", "os.pyc"))
            if any(self._files.stat(landmark) is not None for landmark in landmarks):
                break
            prefix = prefix.rpartition("/")[0] or "/"
        else:
            raise self._unknown_library()
        # Python searches lib-dynload on its own (exec_prefix), and falls back to where it was built for.
        if not any(self._files.stat(f"{library}/lib-dynload") for library in libraries):
            raise self._unknown_library()
        for library in libraries:
            parent = library.rpartition("/")[0]
            self._require_trust(self._trust.why_not_folder(parent))
            if self._files.lstat(f"{parent}/{self._zip}") is not None:
                self._require_trust(self._trust.why_not(f"{parent}/{self._zip}"))
            if self._files.stat(library) is None:
                continue
            if self._libraries is not None:
                self._require_trust(self._trust.why_not_tree(library))
                for name in self._files.names(f"{library}/lib-dynload"):
                    if name.endswith(".so"):
                        self._require_trust(self._libraries(f"{library}/lib-dynload/{name}"))
            packages = [f"{library}/{name}" for name in _PACKAGES if self._files.stat(f"{library}/{name}")]
            for module_folder in (library, *packages):
                self._require_trust(self._trust.why_not_entries(module_folder))
                self._require_trust(self._trust.why_not_entries(f"{module_folder}/__pycache__"))
            self._require_trust(self._trust.why_not_entries(f"{library}/lib-dynload"))
        return prefix

    def _judge_sites(self, prefixes: list[str]) -> None:
        """Judge site-packages, the folders that .pth files in them add, and the user's own site-packages."""
        names = [f"{lib}/python{self._version}" for lib in _LIBS]
        ends = [f"{name}/{kind}-packages" for name in names for kind in ("site", "dist")]
        ends += [end.format(self._version) for end in _DEBIAN]
        sites = [f"{prefix.rstrip('/')}/{end}" for prefix in prefixes for end in ends]
        sites += (f"{home}/.local/lib/python{self._version}/site-packages" for home in self._homes_of_user)
        for site in sites:
            self._require_trust(self._trust.why_not_folder(site))
            if self._files.stat(site) is not None:
                reached = read_site_folders(self._files, site)
                for file in (*reached.unread, *reached.finders):
                    self._require_trust(_("{path} may load code from elsewhere, and was not run", path=file))
                for folder in reached.folders:
                    entry = self._files.stat(folder)
                    # A line may name an archive, whose modules are imported as they are.
                    is_file = entry is not None and entry.is_file
                    judge = self._trust.why_not if is_file else self._trust.why_not_tree
                    self._require_trust(judge(folder))
                for folder in reached.missing:  # which nobody else may make before Python starts
                    self._require_trust(self._trust.why_not_folder(folder))

    def _require_trust(self, why: Optional[str]) -> None:
        if why:
            raise _Distrust(why)

    def _unknown_library(self) -> _Distrust:
        return _Distrust(
            _(
                "{path}: could not determine where this Python loads its standard library from",
                path=self._path,
            )
        )
