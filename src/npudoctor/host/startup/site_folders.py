"""What a start of Python adds to its search path, read without one: .pth files, the user's own folder."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files
from npudoctor.host.users.accounts import home_of

PTH_LIMIT = 1 << 20
PYTHON_LIB = pattern(r"python(\d+\.\d+)\Z")
_EDITABLE = "__editable__."  # setuptools: __editable__.NAME-VERSION.pth beside NAME-VERSION.dist-info
_FINDER = pattern(r"import (__editable___\w+_finder); \1\.install\(\)\s*\Z")
_END = pattern(r"\r\n|\r|\n")
_CODE = ("import ", "import\t")  # as `site` tells it
_OWN_CODE = ("sitecustomize.py", "usercustomize.py")


@dataclass(frozen=True)
class Reached:
    """Folders of the search path, and what may lead to more of them and was not followed.

    `finders`: files whose code leads to no more distributions, but finds modules elsewhere. `first`: those
    of the folders that are searched before all others, as easy_install puts its eggs.
    """

    folders: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    finders: tuple[str, ...] = ()
    first: tuple[str, ...] = ()

    def __add__(self, other: Reached) -> Reached:
        return Reached(
            (*self.folders, *other.folders),
            (*self.unread, *other.unread),
            (*self.finders, *other.finders),
            (*self.first, *other.first),
        )


def reached_from(files: Files, site: str) -> Reached:
    """A folder for packages with the folders that its .pth files name, as Python's own `site` adds them."""
    names = files.names(site)
    unread = []
    for path in (f"{site}/{name}" for name in names if name in _OWN_CODE):
        from npudoctor.host.startup.sitecustomize import adds_nothing  # few have such files

        try:  # code of the user's own may lead anywhere, unless its text shows that it adds nothing
            if adds_nothing((files.read(path, PTH_LIMIT) or b"").decode("utf-8")):
                continue
        except (CannotTell, UnicodeDecodeError):
            pass
        unread.append(path)
    reached = Reached((site,), tuple(unread))
    return sum((_of_pth(files, site, name, names) for name in names if name.endswith(".pth")), reached)


def is_site(folder: str) -> bool:
    """Whether Python reads .pth files there, by its name."""
    return folder.endswith(("/site-packages", "/dist-packages"))


def _of_pth(files: Files, site: str, name: str, beside: list[str]) -> Reached:
    path = f"{site}/{name}"
    try:
        content = files.read(path, PTH_LIMIT) or b""
        text = content.decode("utf-8", "surrogateescape")
        lines = text.splitlines()
        # The releases of Python must agree what its lines are: since 3.13 a mark of the byte order is passed
        # over, and a line ends at more signs.
        agreed = lines == _END.split(text)[: len(lines)] and not text.startswith("\ufeff")
        if not agreed or len(content) >= PTH_LIMIT:
            return Reached(unread=(path,))
        code = [line for line in lines if line.startswith(_CODE)]
        named = [line.rstrip() for line in lines if line.strip() and not line.startswith(("#", *_CODE))]
        paths = (posixpath.normpath(posixpath.join(site, line)) for line in named)
        folders = tuple(folder for folder in paths if files.stat(folder))
    except CannotTell:
        return Reached(unread=(path,))
    if name.startswith("."):
        # Passed over since 3.8.19, 3.9.19, 3.10.14, 3.11.8 and 3.12.2.
        return Reached(unread=(path,) if any(line.strip() for line in lines) else ())
    if not code:
        return Reached(folders)
    from npudoctor.host.startup.pth_code import leads_nowhere, puts_first  # few have such lines
    from npudoctor.host.startup.pth_modules import imports_what_leads_nowhere

    metadata = f"{name[len(_EDITABLE) : -len('.pth')]}.dist-info" if name.startswith(_EDITABLE) else ""
    own = [line for line in code if metadata in beside and _FINDER.match(line)]
    # easy_install's, which moves what its file named to the front.
    first = folders if any("sys.__plen:" in line and puts_first(line) for line in code) else ()
    for line in code:
        if line not in own and not leads_nowhere(line) and not imports_what_leads_nowhere(files, site, line):
            return Reached(folders, (path,), first=first)
    return Reached(folders, finders=(path,) if own else (), first=first)


def user_folders(files: Files, variables: Mapping[str, str], program: str, version: str) -> Reached:
    """The user's own folder for packages: of whom the variables name, and of whom the program belongs to.

    Who may not be looked at, or has no home that we know, is told as unread. None of an environment that
    wants its own packages only.
    """
    if alone(files, program) or variables.get("PYTHONNOUSERSITE"):
        return Reached()
    named, home = variables.get("PYTHONUSERBASE"), variables.get("HOME") or home_of(files, 0) or "/root"
    bases = [named or f"{home}/.local"]
    entry = files.lstat(program)
    owner = home_of(files, entry.uid) if entry is not None and entry.uid else None
    if owner is not None and not named:
        bases.append(f"{owner}/.local")
    reached = Reached()
    for base in dict.fromkeys(base for base in bases if base.startswith("/")):
        site = f"{base}/lib/python{version}/site-packages"
        try:
            reached += reached_from(files, site) if files.stat(site) else Reached()
        except CannotTell:
            reached += Reached(unread=(site,))
    return reached


def alone(files: Files, program: str) -> bool:
    """Whether it is a virtual environment that wants its own packages only."""
    text = files.text(f"{program.rsplit('/', 2)[0]}/pyvenv.cfg") or ""
    settings = text.lower().replace(" ", "").splitlines()
    return bool(settings) and "include-system-site-packages=true" not in settings
