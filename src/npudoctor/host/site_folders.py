"""What a start of Python adds to its search path, read without one: .pth files, the user's own folder."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host.errors import CannotTell
from npudoctor.host.files import Files
from npudoctor.host.users import home_of

PTH_LIMIT = 1 << 20
PYTHON_LIB = re.compile(r"python(\d+\.\d+)\Z")
# Lines of code that add nothing to the search path: the file, and what its line must hold.
_HARMLESS = {
    "distutils-precedence.pth": "_distutils_hack",
    "_virtualenv.pth": "import _virtualenv",
    "easy-install.pth": "sys.__plen",  # it only changes the order
}
_NAMESPACE = "-nspkg.pth"  # setuptools: it declares a package, whose metadata lies beside it
_EDITABLE = "__editable__."  # setuptools again: __editable__.NAME-VERSION.pth beside NAME-VERSION.dist-info
_OWN_CODE = ("sitecustomize.py", "usercustomize.py")


@dataclass(frozen=True)
class Reached:
    """Folders of the search path, and what may lead to more of them and was not followed."""

    folders: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def __add__(self, other: Reached) -> Reached:
        return Reached((*self.folders, *other.folders), (*self.unread, *other.unread))


def reached_from(files: Files, site: str) -> Reached:
    """A folder for packages with the folders that its .pth files name, as Python's own `site` adds them."""
    folders, unread = [site], []
    names = files.names(site)
    for name in names:
        if name in _OWN_CODE:
            unread.append(f"{site}/{name}")
        elif name.endswith(".pth") and not name.startswith("."):
            try:
                lines = (files.text(f"{site}/{name}", PTH_LIMIT) or "").splitlines()
                folders += (folder for folder in _plain(site, lines) if files.stat(folder))
            except CannotTell:
                unread.append(f"{site}/{name}")
                continue
            if any(_is_code(line) and not _harmless(name, line, names) for line in lines):
                unread.append(f"{site}/{name}")
    return Reached(tuple(folders), tuple(unread))


def user_folders(files: Files, variables: Mapping[str, str], program: str, version: str) -> Reached:
    """The user's own folder for packages: of whom the variables name, and of whom the program belongs to.

    Who may not be looked at, or has no home that we know, is told as unread.
    """
    if variables.get("PYTHONNOUSERSITE"):
        return Reached()
    found = Reached()
    for base in dict.fromkeys(_bases(files, variables, program)):
        site = f"{base}/lib/python{version}/site-packages"
        try:
            found += reached_from(files, site) if files.stat(site) else Reached()
        except CannotTell:
            found += Reached(unread=(site,))
    return found


def _bases(files: Files, variables: Mapping[str, str], program: str) -> Iterator[str]:
    named, home = variables.get("PYTHONUSERBASE"), variables.get("HOME") or home_of(files, 0) or "/root"
    for folder in (named, f"{home}/.local" if not named else None):
        if folder and folder.startswith("/"):
            yield folder
    entry = files.lstat(program)
    owner = home_of(files, entry.uid) if entry is not None and entry.uid else None
    if owner is not None and not named:
        yield f"{owner}/.local"


def _plain(site: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line.strip() and not line.startswith("#") and not _is_code(line):
            yield posixpath.normpath(posixpath.join(site, line.rstrip()))


def _is_code(line: str) -> bool:
    """As `site` tells it."""
    return line.startswith(("import ", "import\t"))


def _harmless(name: str, line: str, beside: list[str]) -> bool:
    """Whether a line of code leads to no distribution that is not seen anyway."""
    if name.startswith(_EDITABLE):
        return f"{name[len(_EDITABLE) : -len('.pth')]}.dist-info" in beside
    return name.endswith(_NAMESPACE) or _HARMLESS.get(name, line + " ") in line


def alone(files: Files, program: str) -> bool:
    """Whether it is a virtual environment that wants its own packages only."""
    text = files.text(f"{program.rsplit('/', 2)[0]}/pyvenv.cfg") or ""
    settings = text.lower().replace(" ", "").splitlines()
    return bool(settings) and "include-system-site-packages=true" not in settings


def suits(real: str, version: str) -> bool:
    """Whether a folder pythonX.Y is this program's: python3.11 has it in its name, python3 may not."""
    told = PYTHON_LIB.match(real.rsplit("/", 1)[-1])
    return told is None or told.group(1) == version


def first_folders(entries: list[str], here: Optional[str]) -> list[str]:
    """PYTHONPATH, as the job would have it in front; a relative entry is one of the working directory.

    Its empty entries, which CANN's own script leaves, name that directory itself: what lies there belongs
    to the one program that is started there, and is source-shadowing's to judge.
    """
    named = [entry for entry in entries if entry.startswith("/") or (entry and here is not None)]
    return [
        posixpath.normpath(posixpath.join(here or "/", entry)) if entry[0] != "/" else entry
        for entry in named
    ]
