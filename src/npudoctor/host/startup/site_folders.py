"""Reads what the start of Python adds to its search path: .pth files, and the user's site-packages."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files
from npudoctor.host.users.accounts import home_of

if TYPE_CHECKING:  # loaded where a .pth file has code
    from npudoctor.host.startup.pth_reach import Reach

PTH_LIMIT = 1 << 20
PYTHON_LIB = pattern(r"python(\d+\.\d+)\Z")
_EDITABLE = "__editable__."  # setuptools: __editable__.NAME-VERSION.pth beside NAME-VERSION.dist-info
_FINDER = pattern(r"import (__editable___\w+_finder); \1\.install\(\)\s*\Z")
_LINE_END = pattern(r"\r\n|\r|\n")
_BOM = "\ufeff"
_CODE_PREFIXES = ("import ", "import\t")  # site.addpackage() executes lines that begin so
_OWN_CODE = ("sitecustomize.py", "usercustomize.py")


@dataclass(frozen=True)
class SiteFolders:
    """Folders that are added to the search path, and files that may add more but were not run.

    - `unread`: paths of files whose code may add any folder.
    - `finders`: files whose code finds modules elsewhere, but adds no folder with distributions.
    - `missing`: folders that would be searched if somebody made them.
    - `first`: those of `folders` that are searched before all others, as easy_install puts its eggs.
    """

    folders: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    finders: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __add__(self, other: SiteFolders) -> SiteFolders:
        return SiteFolders(
            (*self.folders, *other.folders),
            (*self.unread, *other.unread),
            (*self.finders, *other.finders),
            (*self.first, *other.first),
            (*self.missing, *other.missing),
        )


def read_site_folders(files: Files, site: str, seen: frozenset[str] = frozenset()) -> SiteFolders:
    """A site-packages folder and the folders that its .pth files add, as Python's `site` does. `seen`: those
    whose files led here, which Python does not read once more."""
    names = files.names(site)
    unread = []
    for path in (f"{site}/{name}" for name in names if name in _OWN_CODE):
        from npudoctor.host.startup.sitecustomize import adds_no_path  # few have such files

        try:  # code of the user's own may lead anywhere, unless its text shows that it adds nothing
            if adds_no_path((files.read(path, PTH_LIMIT) or b"").decode("utf-8")):
                continue
        except (CannotTell, UnicodeDecodeError):
            pass
        unread.append(path)
    site_folders = SiteFolders((site,), tuple(unread))
    seen |= {site}
    return sum(
        (_read_pth(files, site, name, names, seen) for name in names if name.endswith(".pth")), site_folders
    )


def is_site(folder: str) -> bool:
    """Whether Python reads .pth files in a folder, by its name."""
    return folder.endswith(("/site-packages", "/dist-packages"))


def _read_pth(files: Files, site: str, name: str, site_names: list[str], seen: frozenset[str]) -> SiteFolders:
    path = f"{site}/{name}"
    if _is_folder(files, path):
        return SiteFolders()
    try:
        content = files.read(path, PTH_LIMIT) or b""
        text = content.decode("utf-8", "surrogateescape")
        lines = text.splitlines()
        # All releases of Python must see the same lines: since 3.13 a BOM is skipped, and str.splitlines()
        # splits at more characters than a text file does.
        is_unambiguous = lines == _LINE_END.split(text)[: len(lines)]
        if text.startswith(_BOM):
            # What other releases take for a path with a BOM in its name, 3.13 takes for what stands there.
            first = lines[0] = lines[0].lstrip(_BOM)
            is_unambiguous &= not first.startswith(_CODE_PREFIXES)
            is_unambiguous &= not first.strip() or files.stat(posixpath.join(site, first.rstrip())) is None
        if not is_unambiguous or len(content) >= PTH_LIMIT:
            return SiteFolders(unread=(path,))
        code = [line for line in lines if line.startswith(_CODE_PREFIXES)]
        path_lines = [
            line.rstrip() for line in lines if line.strip() and not line.startswith(("#", *_CODE_PREFIXES))
        ]
        paths = [posixpath.normpath(posixpath.join(site, line)) for line in path_lines]
        folders = tuple(folder for folder in paths if files.stat(folder))
        missing = tuple(path for path in paths if path not in folders)
    except CannotTell:
        return SiteFolders(unread=(path,))
    if name.startswith("."):
        # Hidden .pth files are ignored since 3.8.19, 3.9.19, 3.10.14, 3.11.8 and 3.12.2.
        return SiteFolders(unread=(path,) if any(line.strip() for line in lines) else ())
    if not code:
        return SiteFolders(folders, missing=missing)
    from npudoctor.host.startup.pth_code import adds_no_path, is_known_hook, moves_to_front  # few do
    from npudoctor.host.startup.pth_modules import imports_harmless_module
    from npudoctor.host.startup.pth_reach import read_reach

    metadata = f"{name[len(_EDITABLE) : -len('.pth')]}.dist-info" if name.startswith(_EDITABLE) else ""
    finder_lines = [line for line in code if metadata in site_names and _FINDER.match(line)]
    # easy_install's, which moves what its file named to the front.
    first_folders = folders if any("sys.__plen:" in line and moves_to_front(line) for line in code) else ()
    result = SiteFolders(
        folders, finders=(path,) if finder_lines else (), first=first_folders, missing=missing
    )
    for line in code:
        if line in finder_lines or adds_no_path(line) or imports_harmless_module(files, site, line):
            continue
        reach = read_reach(files, site, line)
        if reach is None:
            return SiteFolders(folders, (path,), first=first_folders, missing=missing)
        if not (reach.folders or reach.first or reach.sites or is_known_hook(line)):
            # What it imports names no folder, as far as the files of its package tell; what that imports may.
            result += SiteFolders(finders=(path,))
        result += _read_reached(files, reach, seen)
    return result


def _read_reached(files: Files, reach: Reach, seen: frozenset[str]) -> SiteFolders:
    """The folders that a line of code adds, and what the .pth files in them add."""
    result = SiteFolders()
    for folder in (*reach.folders, *reach.first):
        if files.stat(folder):
            result += SiteFolders((folder,), first=(folder,) if folder in reach.first else ())
        else:
            result += SiteFolders(missing=(folder,))
    for folder in reach.sites:
        if not files.stat(folder):
            result += SiteFolders(missing=(folder,))
        elif folder not in seen:
            result += read_site_folders(files, folder, seen)
    return result


def _is_folder(files: Files, path: str) -> bool:
    """Whether a .pth file is a folder, which Python cannot open and skips; a pipe would stop its start."""
    try:
        entry = files.stat(path)
    except CannotTell:
        return False
    return entry is not None and entry.is_dir


def read_user_folders(files: Files, variables: Mapping[str, str], program: str, version: str) -> SiteFolders:
    """The user's own folder for packages: of whom the variables name, and of whom the program belongs to.

    Who may not be looked at, or has no home that we know, is told as unread. None of an environment that
    wants its own packages only.
    """
    if is_isolated_environment(files, program) or variables.get("PYTHONNOUSERSITE"):
        return SiteFolders()
    user_base, home = variables.get("PYTHONUSERBASE"), variables.get("HOME") or home_of(files, 0) or "/root"
    bases = [user_base or f"{home}/.local"]
    entry = files.lstat(program)
    owner_home = home_of(files, entry.uid) if entry is not None and entry.uid else None
    if owner_home is not None and not user_base:
        bases.append(f"{owner_home}/.local")
    folders = SiteFolders()
    for base in dict.fromkeys(base for base in bases if base.startswith("/")):
        site = f"{base}/lib/python{version}/site-packages"
        try:
            folders += read_site_folders(files, site) if files.stat(site) else SiteFolders()
        except CannotTell:
            folders += SiteFolders(unread=(site,))
    return folders


def is_isolated_environment(files: Files, program: str) -> bool:
    """Whether a program is of a virtual environment without include-system-site-packages."""
    text = files.text(f"{program.rsplit('/', 2)[0]}/pyvenv.cfg") or ""
    settings = text.lower().replace(" ", "").splitlines()
    return bool(settings) and "include-system-site-packages=true" not in settings


def read_home(files: Files, program: str) -> Optional[str]:
    """The folder of the Python that an environment was made of, by its pyvenv.cfg; None without one."""
    settings = files.text(f"{program.rsplit('/', 2)[0]}/pyvenv.cfg") if program.count("/") > 1 else None
    for line in (settings or "").splitlines():
        key, _equals, value = line.partition("=")
        if key.strip().lower() == "home" and value.strip().startswith("/"):
            return value.strip().rstrip("/") or "/"
    return None
