"""What Python runs by itself at its start: sitecustomize, usercustomize, the code lines of .pth files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Finding, Fix, Host, Risk, _
from npudoctor.checks.python.source_shadowing import PACKAGES
from npudoctor.host import CannotTell
from npudoctor.host.python.modules import TEXT_LIMIT, Modules
from npudoctor.host.python.site_folders import PTH_LIMIT, alone, is_site
from npudoctor.host.python.sitecustomize import adds_nothing
from npudoctor.host.python.startup_code import StartupStatement, startup_statements

_CODE = ("import ", "import\t")


def start_up_code(host: Host) -> Iterator[Finding]:
    """What is plain by the text of it; nothing is run."""
    for path in _own_modules(host):
        for told in startup_statements(_text(host, path, TEXT_LIMIT)):
            yield from _findings(f"{path}:{told.line}", told)
    for path in _pth_files(host):
        for number, line in enumerate(_text(host, path, PTH_LIMIT).splitlines(), 1):
            for told in startup_statements(line) if line.startswith(_CODE) else ():
                yield from _findings(f"{path}:{number}", told)


def undetermined(host: Host) -> Optional[str]:
    """Of code that was not run here, is not plain, and may do anything; None where there is none."""
    named = host.variables.path_list("PYTHONPATH") if host.options.root is None else []
    ran = host.interpreter.layout().asked and not host.identity.is_root
    for path in _own_modules(host):
        text = _text(host, path, TEXT_LIMIT)
        known = (ran and path.rpartition("/")[0] not in named) or any(startup_statements(text))
        if text and not known and not adds_nothing(text):
            return _("could not determine what {path} does when Python starts").format(path=path)
    return None


def _own_modules(host: Host) -> Iterator[str]:
    """The first of each name on the search path: the folder in which a job is started is none of it yet."""
    modules = Modules(host.files, host.interpreter.layout())
    names = ["sitecustomize"]
    told = host.options.root is None and host.variables.get("PYTHONNOUSERSITE")
    if not told and not alone(host.files, host.interpreter.path):
        names.append("usercustomize")
    for name in names:
        found = modules.top(name)
        if found is not None and found.file is not None and not found.archived and found.file.endswith(".py"):
            yield found.file


def _pth_files(host: Host) -> Iterator[str]:
    for site in filter(is_site, dict.fromkeys(host.interpreter.layout().search_path)):
        try:
            names = host.files.names(site)
        except CannotTell:
            continue
        yield from (f"{site}/{name}" for name in names if name.endswith(".pth") and name[:1] != ".")


def _text(host: Host, path: str, limit: int) -> str:
    try:
        return host.files.text(path, limit) or ""
    except CannotTell:
        return ""


def _findings(place: str, told: StartupStatement) -> Iterator[Finding]:
    module = told.module.partition(".")[0]
    if told.kind == "replaces" and module not in PACKAGES:
        return
    words = {"place": place, "words": told.words, "module": told.module}
    if told.kind == "ends":
        text = _("Python ends when it starts: {place} says {words}")
    elif told.kind == "raises":
        text = _("{place} says {words} when Python starts: nothing after it is done")
    else:
        text = _("{place} takes the place of the module {module} when Python starts: {words}")
    yield Finding(
        "framework-modules.start-up-code",
        text.format(**words),
        severity=ERROR if told.kind == "ends" and told.certain else WARNING,
        action=Action.CONFIG,
        fix=Fix(
            _("take that line out of {path}, or move the file aside").format(path=place.rpartition(":")[0]),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )
