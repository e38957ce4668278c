"""What Python runs by itself at its start: sitecustomize, usercustomize, the code lines of .pth files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.host.host import Host
from npudoctor.host.python.interpreter import Layout
from npudoctor.host.python.modules import TEXT_LIMIT, Modules
from npudoctor.host.startup.site_folders import (
    PTH_LIMIT,
    PYTHON_LIB,
    is_isolated_environment,
    is_site,
)
from npudoctor.host.startup.sitecustomize import adds_no_path
from npudoctor.host.startup.startup_code import StartupStatement, find_startup_statements

# The lines of a .pth file that site.py executes.
_CODE = ("import ", "import\t")


def start_up_code(host: Host) -> Iterator[tuple[str, StartupStatement]]:
    """Yield "file:line" and what is done there, for code whose text is plain; nothing is run."""
    for path in _own_modules(host):
        for statement in find_startup_statements(_read_text(host, path, TEXT_LIMIT)):
            yield f"{path}:{statement.line}", statement
    for site in filter(is_site, dict.fromkeys(host.interpreter.layout().search_path)):
        try:
            names = host.files.names(site)
        except CannotTell:
            continue
        for name in names:
            if not name.endswith(".pth") or name.startswith("."):
                continue
            for number, line in enumerate(_read_text(host, f"{site}/{name}", PTH_LIMIT).splitlines(), 1):
                for statement in find_startup_statements(line) if line.startswith(_CODE) else ():
                    yield f"{site}/{name}:{number}", statement


def find_unreadable_pth(host: Host, layout: Optional[Layout]) -> Iterator[str]:
    """Yield the .pth files that Python cannot decode: it ends with UnicodeDecodeError at its start.

    Releases 3.9 to 3.13 do, each tried, in a locale of UTF-8 and in C. `layout`: None for an interpreter that
    does not start. None of a Python that has answered, with its .pth files, in the locale of the caller.
    """
    if layout is not None and layout.asked and not host.identity.is_root:
        return
    sites = [folder for folder in (layout.search_path if layout else _sites_beside(host)) if is_site(folder)]
    for site in dict.fromkeys(sites):
        try:
            names = [name for name in host.files.names(site) if name.endswith(".pth") and name[0] != "."]
        except CannotTell:
            continue
        for path in (f"{site}/{name}" for name in names):
            try:
                content = host.files.read(path, PTH_LIMIT) or b""
            except CannotTell:  # a folder, or closed, as it is for Python: it goes on with the next
                continue
            if len(content) < PTH_LIMIT and not _can_be_decoded(host, content, layout):
                yield path


def _sites_beside(host: Host) -> Iterator[str]:
    """The folders for packages beside the name and the file of an interpreter, as far as they tell them."""
    path = host.interpreter.path
    for program in dict.fromkeys((path, host.files.real(path) or path)):
        prefix = program.rsplit("/", 2)[0]
        for name in host.files.names(f"{prefix}/lib"):
            if PYTHON_LIB.match(name):
                yield f"{prefix}/lib/{name}/site-packages"


def _can_be_decoded(host: Host, content: bytes, layout: Optional[Layout]) -> bool:
    variables = host.variables if host.options.root is None else {}
    locale = next((variables[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if variables.get(name)), "")
    encoding = locale.partition(".")[2].partition("@")[0] or "utf-8"
    version = (layout.version if layout else None) or ""
    if variables.get("LC_ALL") in ("C", "POSIX") and version.startswith(("3.11.", "3.12.")):
        encoding = "ascii"  # these read them in the locale's encoding, also where all else is in UTF-8
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    except LookupError:  # of which we know nothing
        return True
    return True


def find_undetermined(host: Host) -> Optional[str]:
    """A sentence about code that was not run here, is not plain, and may do anything; None where there is
    none.
    """
    folders = host.variables.path_list("PYTHONPATH") if host.options.root is None else []
    ran = host.interpreter.layout().asked and not host.identity.is_root
    for path in _own_modules(host):
        text = _read_text(host, path, TEXT_LIMIT)
        is_explained = (ran and path.rpartition("/")[0] not in folders) or any(find_startup_statements(text))
        if text and not is_explained and not adds_no_path(text):
            return _("could not determine what {path} does when Python starts", path=path)
    return None


def _own_modules(host: Host) -> Iterator[str]:
    """The first of each name on the search path; the working directory of a job is not on it yet when Python
    loads them.
    """
    modules = Modules(host.files, host.interpreter.layout())
    names = ["sitecustomize"]
    without_users = host.options.root is None and host.variables.get("PYTHONNOUSERSITE")
    if not without_users and not is_isolated_environment(host.files, host.interpreter.path):
        names.append("usercustomize")
    for module in filter(None, map(modules.find_top, names)):
        if module.file is not None and not module.is_archived and module.file.endswith(".py"):
            yield module.file


def _read_text(host: Host, path: str, limit: int) -> str:
    try:
        return host.files.text(path, limit) or ""
    except CannotTell:
        return ""
