"""The Python that will run the job: which one, its search path, and the metadata of what is installed."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator
from typing import Optional

from npudoctor.core.errors import CannotTell, DoesNotRun, has_ended
from npudoctor.core.frozen import dataclass, field
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.once import Once
from npudoctor.host.fs.files import Files
from npudoctor.host.process.commands import Commands
from npudoctor.host.python.interpreter_probe import MARK, QUESTION, ROOTS_QUESTION, no_answer
from npudoctor.host.python.metadata import distributions_in, egg_requirements, metadata_of, parse_headers
from npudoctor.host.python.shims import shim_target
from npudoctor.host.python.without_metadata import version_in, without_metadata
from npudoctor.host.startup.site_folders import PYTHON_LIB, Reached, alone, reached_from, user_folders
from npudoctor.host.users.access import is_closed
from npudoctor.host.variables import Variables

_SEPARATORS = pattern(r"[-_.]+")


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return _SEPARATORS.sub("-", name).lower()


@dataclass(frozen=True)
class Distribution:
    """One installed distribution. `folder` is its .dist-info; headers are read from its METADATA.

    Without headers only its name and version are known, by the folder's name: not what it requires.
    """

    name: str
    version: str
    folder: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """Name and version, as a message names it."""
        return f"{self.name} {self.version}"

    @property
    def evidence(self) -> str:
        """A line of evidence: which copy was looked at."""
        return f"{self.label}: {self.folder}"

    @property
    def requirement(self) -> str:
        """What pip is told to install this very release."""
        return f"{normal(self.name)}=={self.version}"

    def all(self, header: str) -> list[str]:
        """Every value of a header, such as Requires-Dist."""
        return [value for key, value in self.headers if key == header.lower()]


@dataclass(frozen=True)
class Layout:
    """What an interpreter says of itself, or what its folders say. `unread`: files that may lead to more of
    the search path and were not followed, as Python would have to run them."""

    search_path: tuple[str, ...]
    version: Optional[str]
    machine: Optional[str]
    asked: bool
    unread: tuple[str, ...] = ()


class Interpreter:
    """The interpreter under examination. `chosen_by`: option, path, own. `instead_of`: the python3 of PATH
    that has no framework, where our own Python is examined for that reason."""

    def __init__(
        self,
        path: str,
        chosen_by: str,
        *,
        files: Files,
        commands: Optional[Commands],
        variables: Variables,
        as_root: bool,
        layout: Optional[Layout] = None,
        timeout: float = 6.0,
        here: Callable[[], Optional[str]] = lambda: None,
        instead_of: Optional[str] = None,
    ) -> None:
        self.path = path
        self.instead_of = instead_of
        self.chosen_by = chosen_by
        self._files, self._commands, self._variables = files, commands, variables
        self._as_root = as_root
        self._timeout = timeout
        self._here = here
        self.layout: Once[Layout] = Once(self._look if layout is None else lambda: layout)
        """Its search path and version; CannotTell when it neither answers nor has readable folders."""
        self._by_name = Once(self._list)
        self._read: dict[str, Distribution] = {}
        self._listed: list[tuple[str, frozenset[str]]] = []
        self._without: dict[str, list[Distribution]] = {}

    @property
    def program(self) -> str:
        """What is started to run something by it: for root no shim, but what that would start."""
        return self._program() if self._as_root else self.path

    @property
    def label(self) -> str:
        """How a message names it."""
        return self.path

    def version_of(self, name: str) -> Optional[str]:
        """The version of the first installed copy on the search path; None when there is none."""
        copies = self.distributions(name)
        return (copies[0].version or None) if copies else None

    def distributions(self, name: str) -> list[Distribution]:
        """All installed copies of a distribution in the order of the search path, metadata read."""
        copies = self._copies(name)
        if not copies:
            self.be_sure_without(name)
        return [self._with_headers(copy) for copy in copies]

    def installed(self, name: str) -> Optional[Distribution]:
        """The first copy on the search path, metadata read; None when none is seen."""
        copies = self._copies(name)
        return self._with_headers(copies[0]) if copies else None

    def _copies(self, name: str) -> list[Distribution]:
        """Those with metadata; else the one that can be imported without, by what its own files tell."""
        known, name = self._by_name(), normal(name)
        if name not in known and name not in self._without:
            path = without_metadata(self._files, self._listed, name, known)
            bare = []
            if path is not None:
                version = version_in(self._files, path)
                bare = [Distribution(name, version, path, (("name", name), ("version", version)))]
                self._read[path] = bare[0]
            self._without[name] = bare
        return known.get(name) or self._without[name]

    def all_installed(self) -> Iterator[Distribution]:
        """The first copy of everything that is seen, metadata read: one file for each."""
        return (self._with_headers(copies[0]) for copies in self._by_name().values())

    def be_sure_without(self, name: str) -> None:
        """CannotTell where what was not found may lie in a folder that only a start of Python would tell."""
        unread = self.layout().unread
        if unread:
            raise CannotTell(
                _(
                    "could not determine whether {name} is installed: {path} may lead to it and was not run",
                    name=name,
                    path=unread[0],
                ),
                tried_by=(
                    "trial-python",
                ),  # which compares where the job's Python looks with what is known here
            )

    def _look(self) -> Layout:
        """What it says when it is asked; what its folders say where it is not started."""
        commands = self._commands
        if commands is None:
            return self._from_folders()
        program = self.program
        # The caller's own variables: a version manager's shim or a conda build may need them.
        argv, variables = [program, "-I", "-c", QUESTION], {**self._variables, "LC_ALL": "C"}
        if self._as_root:
            from npudoctor.host.startup.python_start import has_version  # for root only, as all that it needs

            if not has_version(self._files, program):
                return self._from_folders()
            # Without its folders for packages, which are only read.
            argv = [program, "-I", "-S", "-B", "-c", ROOTS_QUESTION]
            variables = {"PATH": commands.trusted_path(), "HOME": "/", "LC_ALL": "C"}
        here = not self._as_root
        answer = commands.run(
            argv, timeout=self._timeout, limit=1 << 20, variables=variables, in_working_directory=here
        )
        if self._as_root and answer.ended == "untrusted":
            return self._from_folders()  # what it loads may be another user's
        _before, mark, text = answer.stdout.rpartition(MARK)  # a wrapper may have said something before
        words = text.split("\0") if mark and answer.ok else []
        if len(words) < 5:
            raise no_answer(program, answer, self._as_root)
        version, machine, prefix, base_prefix, user_site, *search_path = words
        if not self._as_root:
            reached = self._user_site(user_site) if prefix == base_prefix else Reached()
            path = [*reached.first, *self._first(), *reached.folders, *search_path]
            return Layout(tuple(dict.fromkeys(path)), version, machine, asked=True, unread=reached.unread)
        release = ".".join(version.split(".")[:2])
        users = user_folders(self._files, self._variables, program, release)
        bases: dict[Optional[str], str] = {}
        for its_release, base in self._find_libraries(program, self._files.real(program) or program):
            if its_release in ("", release):
                bases.setdefault(self._files.real(base), base)  # once, as lib64 is often a link to lib
        sites = sum(map(self._packages, bases.values()), Reached())
        path = [*users.first, *sites.first, *self._first(), *users.folders, *search_path, *sites.folders]
        unread = (*users.unread, *sites.unread)
        return Layout(tuple(dict.fromkeys(path)), version, machine, asked=True, unread=unread)

    def _list(self) -> dict[str, list[Distribution]]:
        copies: dict[str, list[Distribution]] = {}
        folders = [folder for folder in self.layout().search_path if folder.startswith("/")]
        # lib64 is often a link to lib: each folder once, under its first name.
        once = {self._files.real(folder): folder for folder in reversed(folders)}
        for folder in folders:
            if once.get(self._files.real(folder)) == folder:
                names = self._files.names(folder)
                self._listed.append((folder, frozenset(names)))
                for words in distributions_in(folder, names):
                    copies.setdefault(normal(words[0]), []).append(Distribution(*words))
        return copies

    def _with_headers(self, distribution: Distribution) -> Distribution:
        folder = distribution.folder
        if folder not in self._read:
            headers = parse_headers(metadata_of(self._files, folder))
            named = dict(headers)
            if "name" in named and "requires-dist" not in named:
                required = egg_requirements(self._files, folder)
                headers += tuple(("requires-dist", line) for line in required)
            if "name" in named:
                version = named.get("version", distribution.version)
                distribution = Distribution(named["name"], version, folder, headers)
            self._read[folder] = distribution
        return self._read[folder]

    def _program(self) -> str:
        """The interpreter itself, where the path is a shim that root does not run."""
        return shim_target(self._files, self._variables, self.path, self._here) or self.path

    def _first(self) -> list[str]:
        """PYTHONPATH, as the job would have it in front; without what this user may not look into, which
        Python passes over.

        Its empty entries, which CANN's own script leaves, name the working directory: what lies there belongs
        to the one program that is started there, and is source-shadowing's to judge.
        """
        entries = self._variables.path_list("PYTHONPATH")
        here = self._here() if any(entry[:1] not in ("", "/") for entry in entries) else None
        folders = [entry for entry in entries if entry.startswith("/") or (entry and here is not None)]
        for number, folder in enumerate(folders):
            if not folder.startswith("/"):
                folders[number] = posixpath.normpath(posixpath.join(here or "/", folder))
        return [folder for folder in folders if not is_closed(self._files, folder)]

    def _user_site(self, folder: str) -> Reached:
        """The user's own site-packages, which -I leaves out and the job would have."""
        if self._variables.get("PYTHONNOUSERSITE") or not folder.startswith("/"):
            return Reached()  # "~/.local/...": a uid without a name and without HOME has none
        try:
            return reached_from(self._files, folder) if self._files.stat(folder) else Reached()
        except CannotTell as unknown:
            # To Python itself a folder that this user may not look into is not there; nor one whose file
            # server is gone.
            if getattr(unknown.__cause__, "errno", None) == errno.EACCES or has_ended(unknown):
                return Reached()
            raise

    def _from_folders(self) -> Layout:
        """The search path by the layout of the installation, for an interpreter that is not run."""
        program = self._program() if self._commands is not None else self.path
        real = self._files.real(program)
        if real is None:
            raise DoesNotRun(_("the interpreter {path} does not exist", path=program), 127, "")
        if self._commands is not None and not self._is_program(real):
            raise CannotTell(self._without_library(program))
        installed = list(self._find_libraries(program, real))
        version = next((version for version, _base in installed if version), None)
        if version is None:
            raise CannotTell(self._without_library(program))
        reached = sum(
            (self._packages(base) + Reached((base,)[: bool(its_version)]) for its_version, base in installed),
            Reached(),
        )
        reached = user_folders(self._files, self._variables, program, version) + reached
        path = dict.fromkeys([*reached.first, *self._first(), *reached.folders])
        return Layout(tuple(path), version, None, asked=False, unread=reached.unread)

    def _find_libraries(self, program: str, real: str) -> Iterator[tuple[str, str]]:
        """Each folder of a standard library with its version, and Debian's for all versions, without one."""
        # Where its packages may lie: beside its name and beside its file; of a virtual environment that
        # does not want the system's packages, beside its name only.
        named = PYTHON_LIB.match(real.rsplit("/", 1)[-1])  # python3.11 has it in its name, python3 may not
        own, system = (path.rsplit("/", 2)[0] for path in (program, real))
        for prefix in (own,) if alone(self._files, program) else tuple(dict.fromkeys((own, system))):
            for lib in ("lib", "lib64", "local/lib"):
                for name in self._files.names(f"{prefix}/{lib}"):
                    match = PYTHON_LIB.match(name)
                    if match and (named is None or named[1] == match[1]):
                        yield match[1], f"{prefix}/{lib}/{name}"
            yield "", f"{prefix}/lib/python3"

    def _packages(self, base: str) -> Reached:
        sites = (f"{base}/site-packages", f"{base}/dist-packages")
        return sum((reached_from(self._files, site) for site in sites if self._files.stat(site)), Reached())

    def _is_program(self, real: str) -> bool:
        """Whether the file is a Python at all: folders beside a text, or beside a link to another program,
        say nothing of what `python3` would start."""
        from npudoctor.host.libraries.elf import MAGIC
        from npudoctor.host.startup.python_start import is_python

        return is_python(self._files, real) and self._files.read(real, len(MAGIC)) == MAGIC

    def _without_library(self, program: str) -> str:
        from npudoctor.host.startup.program_start import shebang

        if self._commands is not None and self._as_root and shebang(self._files, program):
            return _(
                "{path} is a script, which npudoctor does not run as root: pass the interpreter "
                "itself with --python",
                path=program,
            )
        real = self._files.real(program)
        if self._commands is not None and real is not None and not self._is_program(real):
            return _("{path} is not a Python program", path=program)
        return _("there is no lib/pythonX.Y next to {path}", path=program)
