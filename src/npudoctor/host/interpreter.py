"""The Python that will run the job: which one, its search path, and the metadata of what is installed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import field
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host.access import closed
from npudoctor.host.commands import Commands
from npudoctor.host.errors import CannotTell
from npudoctor.host.files import Files
from npudoctor.host.once import Once
from npudoctor.host.variables import Variables
from npudoctor.messages import _

# Asked with -I: neither the working directory nor PYTHONPATH reaches the interpreter while we ask;
# the folders that the job would see in front are added by us afterwards.
# Nothing is imported that the interpreter has not loaded by itself: the question costs its start.
MARK = "NPUDOCTOR\0"
QUESTION = (
    "import os,site,sys;"
    "told=[sys.version.split()[0],os.uname()[4],sys.prefix,sys.base_prefix,site.getusersitepackages()];"
    "told+=[entry for entry in sys.path if isinstance(entry,str)];"
    "os.write(1,b'NPUDOCTOR\\0'+b'\\0'.join(os.fsencode(str(word)) for word in told))"
)
METADATA_LIMIT = 1 << 20

# The folder of an installed distribution's metadata; the last form is that of a development install.
_DIST_INFO = (
    re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*)(?:-.*)?\.(?:dist|egg)-info\Z"),
    re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-.*)?\.(?:dist|egg)-info\Z"),
    re.compile(r"(?P<name>[^-]+?)(?P<version>)\.egg-info\Z"),
)
_SEPARATORS = re.compile(r"[-_.]+")
_HOOK = re.compile(r"\.pth\Z|\A(site|user)customize")  # what a start of Python runs from site-packages
_LIB = re.compile(r"python(\d+\.\d+)\Z")


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return _SEPARATORS.sub("-", name).lower()


@dataclass(frozen=True)
class Distribution:
    """One installed distribution. `folder` is its .dist-info; headers are read from its METADATA."""

    name: str
    version: str
    folder: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def all(self, header: str) -> list[str]:
        """Every value of a header, such as Requires-Dist."""
        return [value for key, value in self.headers if key == header.lower()]


@dataclass(frozen=True)
class Layout:
    """What an interpreter says of itself, or what its folders say."""

    search_path: tuple[str, ...]
    version: Optional[str]
    machine: Optional[str]
    asked: bool


def parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """The headers of a METADATA file, names in lower case, continuation lines joined."""
    headers: list[tuple[str, list[str]]] = []
    # Not splitlines: a licence in a header may hold form feeds, and has lines of blanks where it has none.
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line:
            break
        if line[0] in " \t" and headers:
            headers[-1][1].append(line.strip())
        else:
            name, colon, value = line.partition(":")
            if colon:
                headers.append((name.strip().lower(), [value.strip()]))
    return tuple((name, "\n".join(lines)) for name, lines in headers)


class Interpreter:
    """The interpreter under examination. `chosen_by`: option, path, own."""

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
    ) -> None:
        self.path = path
        self.chosen_by = chosen_by
        self._files, self._commands, self._variables = files, commands, variables
        self._as_root = as_root
        self._timeout = timeout
        self._layout = Once(self._look if layout is None else lambda: layout)
        self._found = Once(self._list)

    @property
    def label(self) -> str:
        """How a message names it."""
        return self.path

    def layout(self) -> Layout:
        """Its search path and version; CannotTell when it neither answers nor has readable folders."""
        return self._layout()

    def version_of(self, name: str) -> Optional[str]:
        """The version of the first installed copy on the search path; None when there is none."""
        found = self.distributions(name)
        return found[0].version if found else None

    def distributions(self, name: str) -> list[Distribution]:
        """All installed copies of a distribution in the order of the search path, metadata read."""
        return [self._with_headers(found) for found in self._found().get(normal(name), [])]

    def _look(self) -> Layout:
        commands = self._commands
        if commands is not None and (not self._as_root or self._trusted(commands)):
            return self._ask(commands)
        return self._from_folders()

    def _list(self) -> dict[str, list[Distribution]]:
        found: dict[str, list[Distribution]] = {}
        for copy in self._scan():
            found.setdefault(normal(copy.name), []).append(copy)
        return found

    def _scan(self) -> Iterator[Distribution]:
        folders = [folder for folder in self.layout().search_path if folder.startswith("/")]
        # lib64 is often a link to lib: each folder once, under its first name.
        once = {self._files.real(folder): folder for folder in reversed(folders)}
        for folder in folders:
            if once.get(self._files.real(folder)) == folder:
                for entry in self._files.names(folder):
                    forms = _DIST_INFO if entry.endswith("-info") else ()
                    match = next(filter(None, (form.match(entry) for form in forms)), None)
                    if match:
                        yield Distribution(match["name"], match["version"], f"{folder}/{entry}")

    def _with_headers(self, found: Distribution) -> Distribution:
        for path in (f"{found.folder}/METADATA", f"{found.folder}/PKG-INFO", found.folder):
            entry = self._files.stat(path)
            if entry is not None and entry.is_file:
                headers = parse_headers(self._files.text(path, METADATA_LIMIT) or "")
                named = dict(headers)
                version = named.get("version", found.version)
                return Distribution(named.get("name", found.name), version, found.folder, headers)
        return found

    def _trusted(self, commands: Commands) -> bool:
        """Whether root may start it: the program, and for a virtual environment all that its start runs."""
        prefix = self.path.rsplit("/", 2)[0]
        if self._files.stat(f"{prefix}/pyvenv.cfg") is None:
            return commands.trusted(self.path)
        sites = [
            f"{prefix}/{lib}/{name}/site-packages"
            for lib in ("lib", "lib64")
            for name in self._files.names(f"{prefix}/{lib}")
            if _LIB.match(name)
        ]
        hooks = [f"{site}/{name}" for site in sites for name in self._files.names(site) if _HOOK.search(name)]
        return all(map(commands.trusted, [self.path, f"{prefix}/pyvenv.cfg", *sites, *hooks]))

    def _started_with(self, commands: Commands) -> dict[str, str]:
        """The caller's own variables: a version manager's shim or a conda build may need them. For root
        only a PATH of root's, as a shim starts more programs by it."""
        if self._as_root:
            return {"PATH": commands.trusted_path(), "HOME": os.path.expanduser("~root"), "LC_ALL": "C"}
        return {**self._variables, "LC_ALL": "C"}

    def _ask(self, commands: Commands) -> Layout:
        answer = commands.run(
            [self.path, "-I", "-c", QUESTION],
            timeout=self._timeout,
            limit=1 << 20,
            variables=self._started_with(commands),
            here=True,
        )
        told = answer.stdout.rpartition(MARK)[2].split("\0") if MARK in answer.stdout and answer.ok else []
        if len(told) < 5:
            why = answer.stderr.strip().splitlines()[-1:] or [answer.ended]
            raise CannotTell(
                _("the interpreter {path} does not answer: {why}").format(path=self.path, why=why[0])
            )
        version, machine, prefix, base_prefix, user_site, *search_path = told
        user_sites = self._user_site(user_site) if prefix == base_prefix else []
        path = [*self._first(), *user_sites, *search_path]
        return Layout(tuple(dict.fromkeys(path)), version, machine, asked=True)

    def _first(self) -> list[str]:
        """PYTHONPATH, as the job would have it in front; its empty entries name the working directory.
        Python passes over an entry that this user may not look into, and so do we."""
        entries = [entry for entry in self._variables.path_list("PYTHONPATH") if entry.startswith("/")]
        return [entry for entry in entries if not closed(self._files, entry)]

    def _user_site(self, folder: str) -> list[str]:
        """The user's own site-packages, which -I leaves out and the job would have."""
        if self._variables.get("PYTHONNOUSERSITE"):
            return []
        try:
            return [folder] if self._files.stat(folder) else []
        except CannotTell as unknown:
            # To Python itself a folder that this user may not look into is not there.
            if getattr(unknown.__cause__, "errno", None) == errno.EACCES:
                return []
            raise

    def _from_folders(self) -> Layout:
        """The search path by the layout of the installation, for an interpreter that is not run."""
        real = self._files.real(self.path)
        if real is None:
            raise CannotTell(_("the interpreter {path} does not exist").format(path=self.path))
        folders: list[str] = []
        version = None
        for prefix in self._prefixes(real):
            for lib in ("lib", "lib64", "local/lib"):
                for name in self._files.names(f"{prefix}/{lib}"):
                    match = _LIB.match(name)
                    if match and self._suits(real, match.group(1)):
                        version = version or match.group(1)
                        base = f"{prefix}/{lib}/{name}"
                        folders += [f"{base}/site-packages", f"{base}/dist-packages", base]
            folders += [f"{prefix}/lib/python3/dist-packages"]
        if version is None:
            raise CannotTell(_("{path} has no lib/pythonX.Y beside it").format(path=self.path))
        path = [*self._first(), *(folder for folder in folders if self._files.stat(folder))]
        return Layout(tuple(dict.fromkeys(path)), version, None, asked=False)

    def _prefixes(self, real: str) -> tuple[str, ...]:
        """Where its packages may lie: beside its name and beside its file; of a virtual environment that
        does not want the system's packages, beside its name only."""
        own, system = (program.rsplit("/", 2)[0] for program in (self.path, real))
        settings = (self._files.text(f"{own}/pyvenv.cfg") or "").lower().replace(" ", "").splitlines()
        alone = bool(settings) and "include-system-site-packages=true" not in settings
        return (own,) if alone else tuple(dict.fromkeys((own, system)))

    @staticmethod
    def _suits(real: str, version: str) -> bool:
        """Whether a folder pythonX.Y is this program's: python3.11 has it in its name, python3 may not."""
        name = real.rsplit("/", 1)[-1]
        told = _LIB.match(name)
        return told is None or told.group(1) == version
