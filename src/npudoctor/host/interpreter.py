"""The Python that will run the job: which one, its search path, and the metadata of what is installed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host.access import closed
from npudoctor.host.commands import Commands
from npudoctor.host.errors import CannotTell
from npudoctor.host.files import Files
from npudoctor.host.metadata import distributions_in, egg_requirements, metadata_of, parse_headers
from npudoctor.host.once import Once
from npudoctor.host.question import QUESTION, no_answer, words_of
from npudoctor.host.site_folders import (
    PYTHON_LIB,
    Reached,
    alone,
    first_folders,
    reached_from,
    suits,
    user_folders,
)
from npudoctor.host.variables import Variables
from npudoctor.messages import _

_SEPARATORS = re.compile(r"[-_.]+")
HOOK = re.compile(r"\.pth\Z|\A(site|user)customize")  # what a start of Python runs from site-packages


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
        here: Callable[[], Optional[str]] = lambda: None,
    ) -> None:
        self.path = path
        self.chosen_by = chosen_by
        self._files, self._commands, self._variables = files, commands, variables
        self._as_root = as_root
        self._timeout = timeout
        self._here = here
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
        found = self._found().get(normal(name), [])
        if not found:
            self.be_sure_without(name)
        return [self._with_headers(copy) for copy in found]

    def be_sure_without(self, name: str) -> None:
        """CannotTell where what was not found may lie in a folder that only a start of Python would tell."""
        unread = self.layout().unread
        if unread:
            text = _("whether {name} is installed is not known: {path} may lead to it, and was not run")
            raise CannotTell(text.format(name=name, path=unread[0]))

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
                for told in distributions_in(self._files, folder):
                    yield Distribution(*told)

    def _with_headers(self, found: Distribution) -> Distribution:
        headers = parse_headers(metadata_of(self._files, found.folder))
        named = dict(headers)
        if "name" not in named:
            return found
        if "requires-dist" not in named:
            required = egg_requirements(self._files, found.folder)
            headers += tuple(("requires-dist", line) for line in required)
        return Distribution(named["name"], named.get("version", found.version), found.folder, headers)

    def _trusted(self, commands: Commands) -> bool:
        """Whether root may start it: the program, and for a virtual environment all that its start runs."""
        prefix = self.path.rsplit("/", 2)[0]
        if self._files.stat(f"{prefix}/pyvenv.cfg") is None:
            return commands.trusted(self.path)
        sites = [
            f"{prefix}/{lib}/{name}/site-packages"
            for lib in ("lib", "lib64")
            for name in self._files.names(f"{prefix}/{lib}")
            if PYTHON_LIB.match(name)
        ]
        hooks = [f"{site}/{name}" for site in sites for name in self._files.names(site) if HOOK.search(name)]
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
        told = words_of(answer)
        if len(told) < 5:
            raise no_answer(self.path, answer, self._as_root)
        version, machine, prefix, base_prefix, user_site, *search_path = told
        more = self._user_site(user_site) if prefix == base_prefix else Reached()
        path = [*self._first(), *more.folders, *search_path]
        return Layout(tuple(dict.fromkeys(path)), version, machine, asked=True, unread=more.unread)

    def _first(self) -> list[str]:
        """PYTHONPATH, as the job would have it in front; without what this user may not look into, which
        Python passes over."""
        entries = self._variables.path_list("PYTHONPATH")
        here = self._here() if any(one[:1] not in ("", "/") for one in entries) else None
        return [folder for folder in first_folders(entries, here) if not closed(self._files, folder)]

    def _user_site(self, folder: str) -> Reached:
        """The user's own site-packages, which -I leaves out and the job would have."""
        if self._variables.get("PYTHONNOUSERSITE"):
            return Reached()
        try:
            return reached_from(self._files, folder) if self._files.stat(folder) else Reached()
        except CannotTell as unknown:
            # To Python itself a folder that this user may not look into is not there.
            if getattr(unknown.__cause__, "errno", None) == errno.EACCES:
                return Reached()
            raise

    def _from_folders(self) -> Layout:
        """The search path by the layout of the installation, for an interpreter that is not run."""
        real = self._files.real(self.path)
        if real is None:
            raise CannotTell(_("the interpreter {path} does not exist").format(path=self.path))
        found, version = Reached(), None
        for prefix in self._prefixes(real):
            for lib in ("lib", "lib64", "local/lib"):
                for name in self._files.names(f"{prefix}/{lib}"):
                    match = PYTHON_LIB.match(name)
                    if match and suits(real, match.group(1)):
                        version = version or match.group(1)
                        base = f"{prefix}/{lib}/{name}"
                        found += self._reached(f"{base}/site-packages", f"{base}/dist-packages")
                        found += Reached((base,))
            found += self._reached(f"{prefix}/lib/python3/dist-packages")
        if version is None:
            raise CannotTell(_("{path} has no lib/pythonX.Y beside it").format(path=self.path))
        if not alone(self._files, self.path):
            found = user_folders(self._files, self._variables, self.path, version) + found
        path = dict.fromkeys([*self._first(), *found.folders])
        return Layout(tuple(path), version, None, asked=False, unread=found.unread)

    def _reached(self, *sites: str) -> Reached:
        there = (reached_from(self._files, site) for site in sites if self._files.stat(site))
        return sum(there, Reached())

    def _prefixes(self, real: str) -> tuple[str, ...]:
        """Where its packages may lie: beside its name and beside its file; of a virtual environment that
        does not want the system's packages, beside its name only."""
        own, system = (program.rsplit("/", 2)[0] for program in (self.path, real))
        return (own,) if alone(self._files, self.path) else tuple(dict.fromkeys((own, system)))
