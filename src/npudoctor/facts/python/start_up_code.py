"""What Python runs by itself at its start: sitecustomize, usercustomize, the code lines of .pth files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.host.host import Host
from npudoctor.host.python.modules import TEXT_LIMIT, Modules
from npudoctor.host.startup.site_folders import PTH_LIMIT, is_isolated_environment, is_site
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
