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
from npudoctor.host.python.interpreter_probe import (
    BUILT_IN_MARK,
    MARK,
    QUESTION,
    ROOTS_QUESTION,
    make_no_answer_error,
)
from npudoctor.host.python.metadata import (
    find_distributions,
    parse_headers,
    read_egg_requirements,
    read_metadata,
)
from npudoctor.host.python.shims import find_shim_target
from npudoctor.host.python.without_metadata import find_without_metadata, read_version
from npudoctor.host.startup.site_folders import (
    PYTHON_LIB,
    SiteFolders,
    is_isolated_environment,
    read_site_folders,
    read_user_folders,
)
from npudoctor.host.users.access import is_closed
from npudoctor.host.variables import Variables

_SEPARATORS = pattern(r"[-_.]+")


def normalize_name(name: str) -> str:
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
        """What pip is told to install this very release; any, if its version is unknown."""
        name = normalize_name(self.name)
        return f"{name}=={self.version}" if self.version else name

    def header_values(self, header: str) -> list[str]:
        """Every value of a header, such as Requires-Dist."""
        return [value for key, value in self.headers if key == header.lower()]


@dataclass(frozen=True)
class Layout:
    """What an interpreter says of itself, or what its folders say. `unread`: files that may lead to more of
    the search path and were not followed, as Python would have to run them. `built_in`: the modules that are
    compiled into its program; None where it was not asked."""

    search_path: tuple[str, ...]
    version: Optional[str]
    machine: Optional[str]
    asked: bool
    unread: tuple[str, ...] = ()
    built_in: Optional[frozenset[str]] = None


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
        read_working_folder: Callable[[], Optional[str]] = lambda: None,
        instead_of: Optional[str] = None,
    ) -> None:
        self.path = path
        self.instead_of = instead_of
        self.chosen_by = chosen_by
        self._files, self._commands, self._variables = files, commands, variables
        self._as_root = as_root
        self._timeout = timeout
        self._read_working_folder = read_working_folder
        self.layout: Once[Layout] = Once(self._read_layout if layout is None else lambda: layout)
        """Its search path and version; CannotTell when it neither answers nor has readable folders."""
        self._copies_by_name = Once(self._list_distributions)
        self._distribution_by_folder: dict[str, Distribution] = {}
        self._listed: list[tuple[str, frozenset[str]]] = []
        self._bare_by_name: dict[str, list[Distribution]] = {}

    @property
    def program(self) -> str:
        """What is started to run something by it: for root no shim, but what that would start."""
        return self._resolve_shim() if self._as_root else self.path

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
        copies = self._find_copies(name)
        if not copies:
            self.require_certain_absence(name)
        return [self._with_headers(copy) for copy in copies]

    def installed(self, name: str) -> Optional[Distribution]:
        """The first copy on the search path, metadata read; None when none is seen."""
        copies = self._find_copies(name)
        return self._with_headers(copies[0]) if copies else None

    def _find_copies(self, name: str) -> list[Distribution]:
        """Those with metadata; else the one that can be imported without, by what its own files tell."""
        copies_by_name, name = self._copies_by_name(), normalize_name(name)
        if name not in copies_by_name and name not in self._bare_by_name:
            path = find_without_metadata(self._files, self._listed, name, copies_by_name)
            copies = []
            if path is not None:
                version = read_version(self._files, path)
                copies = [Distribution(name, version, path, (("name", name), ("version", version)))]
                self._distribution_by_folder[path] = copies[0]
            self._bare_by_name[name] = copies
        return copies_by_name.get(name) or self._bare_by_name[name]

    def seen_names(self) -> set[str]:
        """The names of all distributions with metadata (PEP 503), and of all files and folders that may be
        modules without: whoever looks for many asks here first.
        """
        names = {*self._copies_by_name()}
        return names.union(name.removesuffix(".py") for _folder, listed in self._listed for name in listed)

    def all_installed(self) -> Iterator[Distribution]:
        """The first copy of everything that is seen, metadata read: one file for each."""
        return (self._with_headers(copies[0]) for copies in self._copies_by_name().values())

    def require_certain_absence(self, name: str) -> None:
        """Raises CannotTell if a distribution that was not found may still be installed.

        A .pth file with code, or sitecustomize, may add a folder; which one, only a start of Python shows.
        """
        unread = self.layout().unread
        if unread:
            raise CannotTell(
                _(
                    "could not determine whether {name} is installed: {path} may lead to it and was not run",
                    name=name,
                    path=unread[0],
                ),
                # That check starts the job's Python, and compares its sys.path with the folders read here.
                tried_by=("trial-python",),
            )

    def _read_layout(self) -> Layout:
        """What it says when it is asked; what its folders say where it is not started."""
        commands = self._commands
        if commands is None:
            return self._from_folders()
        program = self.program
        # The caller's own variables: a version manager's shim or a conda build may need them.
        # And the caller's own locale: Python 3.11 and 3.12 read .pth files in its encoding.
        argv, variables = [program, "-I", "-c", QUESTION], dict(self._variables)
        if self._as_root:
            from npudoctor.host.startup.python_start import (
                has_version_in_name,
            )  # for root only, as all that it needs

            if not has_version_in_name(self._files, program):
                return self._from_folders()
            # Without its folders for packages, which are only read.
            argv = [program, "-I", "-S", "-B", "-c", ROOTS_QUESTION]
            variables = {"PATH": commands.trusted_path(), "HOME": "/", "LC_ALL": "C"}
        in_working_directory = not self._as_root
        answer = commands.run(
            argv,
            timeout=self._timeout,
            limit=1 << 20,
            variables=variables,
            in_working_directory=in_working_directory,
        )
        if self._as_root and answer.ended == "untrusted":
            return self._from_folders()  # what it loads may be another user's
        _before, mark, text = answer.stdout.rpartition(MARK)  # a wrapper may have said something before
        text, built_in_mark, built_in_names = text.partition(BUILT_IN_MARK)
        built_in = frozenset(built_in_names.split("\0")) if built_in_mark else None
        words = text.split("\0") if mark and answer.ok else []
        if len(words) < 5:
            raise make_no_answer_error(program, answer, self._as_root)
        version, machine, prefix, base_prefix, user_site, *search_path = words
        if not self._as_root:
            user_site_folders = self._read_user_site(user_site) if prefix == base_prefix else SiteFolders()
            path = [
                *user_site_folders.first,
                *self._pythonpath_folders(),
                *user_site_folders.folders,
                *search_path,
            ]
            unread, asked = user_site_folders.unread, True
            return Layout(tuple(dict.fromkeys(path)), version, machine, asked, unread, built_in)
        release = ".".join(version.split(".")[:2])
        users = read_user_folders(self._files, self._variables, program, release)
        library_folders: dict[Optional[str], str] = {}
        for its_release, base in self._find_libraries(program, self._files.real(program) or program):
            if its_release in ("", release):
                library_folders.setdefault(
                    self._files.real(base), base
                )  # once, as lib64 is often a link to lib
        sites = sum(map(self._read_packages, library_folders.values()), SiteFolders())
        path = [
            *users.first,
            *sites.first,
            *self._pythonpath_folders(),
            *users.folders,
            *search_path,
            *sites.folders,
        ]
        unread = (*users.unread, *sites.unread)
        return Layout(tuple(dict.fromkeys(path)), version, machine, True, unread, built_in)

    def _list_distributions(self) -> dict[str, list[Distribution]]:
        copies: dict[str, list[Distribution]] = {}
        folders = [folder for folder in self.layout().search_path if folder.startswith("/")]
        # lib64 is often a link to lib: each folder once, under its first name.
        first_name_by_path = {self._files.real(folder): folder for folder in reversed(folders)}
        for folder in folders:
            if first_name_by_path.get(self._files.real(folder)) == folder:
                names = self._files.names(folder)
                self._listed.append((folder, frozenset(names)))
                for fields in find_distributions(folder, names):
                    copies.setdefault(normalize_name(fields[0]), []).append(Distribution(*fields))
        return copies

    def _with_headers(self, distribution: Distribution) -> Distribution:
        folder = distribution.folder
        if folder not in self._distribution_by_folder:
            headers = parse_headers(read_metadata(self._files, folder))
            value_by_header = dict(headers)
            if "name" in value_by_header and "requires-dist" not in value_by_header:
                required = read_egg_requirements(self._files, folder)
                headers += tuple(("requires-dist", line) for line in required)
            if "name" in value_by_header:
                version = value_by_header.get("version", distribution.version)
                distribution = Distribution(value_by_header["name"], version, folder, headers)
            self._distribution_by_folder[folder] = distribution
        return self._distribution_by_folder[folder]

    def _resolve_shim(self) -> str:
        """The interpreter itself, where the path is a shim that root does not run."""
        return (
            find_shim_target(self._files, self._variables, self.path, self._read_working_folder) or self.path
        )

    def _pythonpath_folders(self) -> list[str]:
        """PYTHONPATH, as the job would have it in front; without what this user may not look into, which
        Python passes over.

        Its empty entries, which CANN's own script leaves, name the working directory: what lies there belongs
        to the one program that is started there, and is source-shadowing's to judge.
        """
        entries = self._variables.path_list("PYTHONPATH")
        working_folder = (
            self._read_working_folder() if any(entry[:1] not in ("", "/") for entry in entries) else None
        )
        folders = [
            entry for entry in entries if entry.startswith("/") or (entry and working_folder is not None)
        ]
        for number, folder in enumerate(folders):
            if not folder.startswith("/"):
                folders[number] = posixpath.normpath(posixpath.join(working_folder or "/", folder))
        return [folder for folder in folders if not is_closed(self._files, folder)]

    def _read_user_site(self, folder: str) -> SiteFolders:
        """The user's own site-packages, which -I leaves out and the job would have."""
        if self._variables.get("PYTHONNOUSERSITE") or not folder.startswith("/"):
            return SiteFolders()  # "~/.local/...": a uid without a name and without HOME has none
        try:
            return read_site_folders(self._files, folder) if self._files.stat(folder) else SiteFolders()
        except CannotTell as unknown:
            # To Python itself a folder that this user may not look into is not there; nor one whose file
            # server is gone.
            if getattr(unknown.__cause__, "errno", None) == errno.EACCES or has_ended(unknown):
                return SiteFolders()
            raise

    def _from_folders(self) -> Layout:
        """The search path by the layout of the installation, for an interpreter that is not run."""
        program = self._resolve_shim() if self._commands is not None else self.path
        real = self._files.real(program)
        if real is None:
            raise DoesNotRun(_("the interpreter {path} does not exist", path=program), 127, "")
        if self._commands is not None and not self._is_program(real):
            raise CannotTell(self._describe_missing_library(program))
        installed = list(self._find_libraries(program, real))
        version = next((version for version, _base in installed if version), None)
        if version is None:
            raise CannotTell(self._describe_missing_library(program))
        site_folders = sum(
            (
                self._read_packages(base) + SiteFolders((base,)[: bool(its_version)])
                for its_version, base in installed
            ),
            SiteFolders(),
        )
        site_folders = read_user_folders(self._files, self._variables, program, version) + site_folders
        path = dict.fromkeys([*site_folders.first, *self._pythonpath_folders(), *site_folders.folders])
        return Layout(tuple(path), version, None, asked=False, unread=site_folders.unread)

    def _find_libraries(self, program: str, real: str) -> Iterator[tuple[str, str]]:
        """Each folder of a standard library with its version, and Debian's for all versions, without one."""
        # Where its packages may lie: beside its name and beside its file; of a virtual environment that
        # does not want the system's packages, beside its name only.
        name_match = PYTHON_LIB.match(
            real.rsplit("/", 1)[-1]
        )  # python3.11 has it in its name, python3 may not
        prefix_by_name, prefix_by_file = (path.rsplit("/", 2)[0] for path in (program, real))
        for prefix in (
            (prefix_by_name,)
            if is_isolated_environment(self._files, program)
            else tuple(dict.fromkeys((prefix_by_name, prefix_by_file)))
        ):
            for lib in ("lib", "lib64", "local/lib"):
                for name in self._files.names(f"{prefix}/{lib}"):
                    match = PYTHON_LIB.match(name)
                    if match and (name_match is None or name_match[1] == match[1]):
                        yield match[1], f"{prefix}/{lib}/{name}"
            yield "", f"{prefix}/lib/python3"

    def _read_packages(self, base: str) -> SiteFolders:
        sites = (f"{base}/site-packages", f"{base}/dist-packages")
        return sum(
            (read_site_folders(self._files, site) for site in sites if self._files.stat(site)), SiteFolders()
        )

    def _is_program(self, real: str) -> bool:
        """Whether the file is a Python at all: folders beside a text, or beside a link to another program,
        say nothing of what `python3` would start."""
        from npudoctor.host.libraries.elf import MAGIC
        from npudoctor.host.startup.python_start import is_python

        return is_python(self._files, real) and self._files.read(real, len(MAGIC)) == MAGIC

    def _describe_missing_library(self, program: str) -> str:
        from npudoctor.host.startup.program_start import read_shebang

        if self._commands is not None and self._as_root and read_shebang(self._files, program):
            return _(
                "{path} is a script, which npudoctor does not run as root: pass the interpreter "
                "itself with --python",
                path=program,
            )
        real = self._files.real(program)
        if self._commands is not None and real is not None and not self._is_program(real):
            return _("{path} is not a Python program", path=program)
        return _("there is no lib/pythonX.Y next to {path}", path=program)
