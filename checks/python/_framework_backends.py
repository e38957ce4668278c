"""What frameworks load by themselves: back ends announced to torch, libraries in certain folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from npudoctor import Action, Command, Export, Finding, Fix, Host, Risk, _
from npudoctor.checks.python._installed_modules import module_of, modules_of
from npudoctor.checks.python._torch_autoload import SINCE, SWITCH
from npudoctor.core.errors import CannotTell
from npudoctor.host.python.bindings import bindings, imports_wanted, parts_wanted
from npudoctor.host.python.requirements import version_number

_GROUP = "[torch.backends]"
MOST = 8  # libraries of one back end
_ELF = b"\x7fELF"
# Folders of which every library is loaded when the framework is imported, by the module that does.
_FOLDERS = {"tensorflow": "tensorflow-plugins", "paddle": "paddle_custom_device"}


class Backend(NamedTuple):
    """One entry point: who announces it, which module, which function of it."""

    folder: str
    module: str
    function: str


def backends(host: Host) -> Iterator[Finding]:
    """Back ends that torch would load and that are not there."""
    for backend in announced(host):
        missing = _missing(host, backend)
        if missing is not None:
            yield _gone(backend, missing)
            continue
        lacking = _lacking(host, backend)
        if lacking is not None:
            yield _without(backend, lacking)


def announced(host: Host) -> list[Backend]:
    """What torch loads when it is imported; nothing where it does not."""
    return host.once("back ends of torch", lambda: list(_announced(host)) if _loads(host) else [])


def _loads(host: Host) -> bool:
    torch = host.interpreter.installed("torch")
    if torch is None or host.options.root is not None or host.variables.get(SWITCH, "1") != "1":
        return False
    try:
        return bool(version_number(torch).release[:2] >= SINCE)
    except CannotTell:
        return False


def libraries_of(host: Host, backend: Backend) -> list[str]:
    """The libraries beside a back end's module that its source names, or imports; as far as it tells."""
    found = modules_of(host).find(backend.module)
    text = modules_of(host).text(found.file) if found is not None and found.file else ""
    wanted = parts_wanted(text)
    return [
        f"{folder}/{name}"
        for folder in _library_folders(found.folders if found is not None else ())
        for name in sorted(modules_of(host).names(folder))
        if name.endswith(".so") and (name.partition(".")[0] in wanted or name in text)
    ][:MOST]


def _library_folders(folders: Sequence[str]) -> list[str]:
    return [place for folder in folders for place in (folder, f"{folder}/lib")]


def _lacking(host: Host, backend: Backend) -> Optional[str]:
    """What the source of a back end's module imports without a condition and is not there, for certain."""
    modules = modules_of(host)
    found = modules.find(backend.module)
    text = modules.text(found.file) if found is not None and found.file and not found.archived else ""
    if found is None or not text or modules.is_open(f"{backend.module}.any"):
        return None
    there = {name.partition(".")[0] for folder in found.folders for name in modules.names(folder)}
    parts = sorted(parts_wanted(text) - there) if found.folders else []
    if parts:
        return f"{backend.module}.{parts[0]}"
    own: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())  # since 3.10
    names = sorted(imports_wanted(text) - own) if own else []
    return next((name for name in names if modules.is_missing(name)), None)


def _without(backend: Backend, lacking: str) -> Finding:
    text = _("import torch fails: the back end {module} imports {missing}, which is missing")
    return Finding(
        "framework-modules.backend-gone",
        text.format(module=backend.module, missing=lacking),
        evidence=(f"{backend.folder}/entry_points.txt: {_GROUP}",),
        action=Action.CONFIG,
        fix=_switched_off(),
        echo_of=("package-files.missing", "package-requirements.missing"),
    )


def _announced(host: Host) -> Iterator[Backend]:
    seen: set[str] = set()
    for site in dict.fromkeys(host.interpreter.layout().search_path):
        names = [name for name in modules_of(host).names(site) if name.endswith("-info")]
        files = [f"{name}/entry_points.txt" for name in sorted(names)]
        for name, size in zip(files, host.files.sizes(site, files) if files else ()):
            distribution = name.partition("-")[0].lower()
            if size > 0 and distribution not in seen:
                seen.add(distribution)  # the first copy counts
                yield from _parse(f"{site}/{name}", host.files.text(f"{site}/{name}") or "")


def _parse(path: str, text: str) -> Iterator[Backend]:
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == _GROUP
        elif inside and "=" in line and not line.startswith("#"):
            value = line.partition("=")[2].partition("[")[0]
            module, _colon, function = value.partition(":")
            yield Backend(path.rpartition("/")[0], module.strip(), function.strip())


def _missing(host: Host, backend: Backend) -> Optional[str]:
    """The module or the function that is not there, for certain."""
    modules = modules_of(host)
    found = modules.find(backend.module)
    if found is None:
        return backend.module if modules.is_missing(backend.module) else None
    if found.file is None:  # a folder without __init__.py: what an uninstalled package left, or half of one
        left = {name for folder in found.folders for name in modules.names(folder)}
        return backend.module if left <= {"__pycache__"} and not modules.is_open(backend.module) else None
    offered = bindings(modules.text(found.file)) if found.file.endswith(".py") else None
    first = backend.function.partition(".")[0]
    if found.archived or offered is None or not first or first in offered:
        return None
    return f"{backend.module}:{backend.function}"


def _gone(backend: Backend, missing: str) -> Finding:
    text = _("import torch fails: {folder} announces {missing} as a back end, and that is not there")
    return Finding(
        "framework-modules.backend-gone",
        text.format(folder=backend.folder, missing=missing),
        evidence=(f"{backend.folder}/entry_points.txt: {_GROUP}",),
        action=Action.CONFIG,
        fix=_switched_off(),
        echo_of=("package-files.missing", "torch-npu.cann-missing"),
    )


def _switched_off() -> Fix:
    return Fix(
        _("reinstall what announces it, or uninstall it; or type this"),
        steps=(Export(SWITCH, "0"),),
        undo=Export(SWITCH, "1").lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def plugins(host: Host) -> Iterator[Finding]:
    """Files in the folders of plug-ins that no loader can load."""
    for site in dict.fromkeys(host.interpreter.layout().search_path):
        for framework, name in _FOLDERS.items():
            folder = f"{site}/{name}"
            if name not in modules_of(host).names(site) or not _is_installed(host, framework):
                continue
            for file in host.files.names(folder):
                path = f"{folder}/{file}"
                entry = host.files.stat(path) if file.endswith(".so") else None
                if entry is not None and entry.is_file and host.files.read(path, 4) != _ELF:
                    yield _unusable(path, framework)


def _is_installed(host: Host, framework: str) -> bool:
    roots = ("tensorflow", "tensorflow-cpu", "paddlepaddle", "paddlepaddle-gpu")
    return any(module_of(name) == framework and host.interpreter.installed(name) for name in roots)


def _unusable(path: str, framework: str) -> Finding:
    text = _("import {framework} fails: it loads every library in {folder}, and {path} is none")
    return Finding(
        "framework-modules.plugin-unusable",
        text.format(framework=framework, folder=path.rpartition("/")[0], path=path),
        action=Action.CONFIG,
        fix=Fix(
            _("move it aside, or reinstall what it came with"),
            steps=(Command(("mv", path, f"{path}.aside")),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
        echo_of=("package-files.cut-short",),
    )
