"""What frameworks load by themselves: back ends announced to torch, libraries in certain folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.facts.python.installed_modules import module_of, modules_of
from npudoctor.host.host import Host
from npudoctor.host.python.bindings import list_bindings, read_imports, read_submodule_imports
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import parse_version

GROUP = "[torch.backends]"  # of entry points
# PyTorch's variable: 0 turns the loading of back ends off.
SWITCH = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_SINCE = (2, 5)  # of torch
_MOST = 8  # libraries of one back end
# Folders of which every library is loaded when the framework is imported, by the module that does.
_FOLDERS = {"tensorflow": "tensorflow-plugins", "paddle": "paddle_custom_device"}


class Backend(NamedTuple):
    """One entry point: the metadata folder that announces it, which module, which function of it."""

    folder: str
    module: str
    function: str


def loads_backends(host: Host, torch: Distribution) -> bool:
    """Return whether this torch imports back ends by itself.

    False where the switch forbids it, and for an image, as nobody knows the variables with which it will be
    started. CannotTell where the version of torch cannot be parsed.
    """
    if host.options.root is not None or host.variables.get(SWITCH, "1") != "1":
        return False
    return bool(parse_version(torch).release[:2] >= _SINCE)


def find_backends(host: Host) -> list[Backend]:
    """The back ends that torch loads when it is imported; none where it loads none."""
    return host.once("back ends of torch", lambda: list(_search_backends(host)))


def _search_backends(host: Host) -> Iterator[Backend]:
    torch = host.interpreter.installed("torch")
    try:
        if torch is None or not loads_backends(host, torch):
            return
    except CannotTell:
        return
    distributions: set[str] = set()
    for site in dict.fromkeys(host.interpreter.layout().search_path):
        names = [name for name in modules_of(host).names(site) if name.endswith("-info")]
        files = [f"{name}/entry_points.txt" for name in sorted(names)]
        for name, size in zip(files, host.files.sizes(site, files) if files else ()):
            # Without the version: of two copies Python takes the first on the search path.
            distribution = name.partition("-")[0].lower()
            if size > 0 and distribution not in distributions:
                distributions.add(distribution)  # the first copy counts
                path = f"{site}/{name}"
                text = host.files.text(f"{site}/{name}") or ""
                inside = False
                for line in map(str.strip, text.splitlines()):
                    if line.startswith("["):
                        inside = line == GROUP
                    elif inside and "=" in line and not line.startswith("#"):
                        value = line.partition("=")[2].partition("[")[0]
                        module, _colon, function = value.partition(":")
                        yield Backend(path.rpartition("/")[0], module.strip(), function.strip())


def libraries_of(host: Host, backend: Backend) -> list[str]:
    """The libraries beside a back end's module that its source names or imports, as far as it tells; at most
    _MOST.
    """
    module = modules_of(host).find(backend.module)
    text = modules_of(host).text(module.file) if module is not None and module.file else ""
    names = read_submodule_imports(text)
    return [
        f"{folder}/{name}"
        for place in (module.folders if module is not None else ())
        for folder in (place, f"{place}/lib")
        for name in sorted(modules_of(host).names(folder))
        if name.endswith(".so") and (name.partition(".")[0] in names or name in text)
    ][:_MOST]


def find_missing_part(host: Host, backend: Backend) -> Optional[str]:
    """The module or the function that is announced and certainly does not exist; None otherwise."""
    modules = modules_of(host)
    module = modules.find(backend.module)
    if module is None:
        return backend.module if modules.is_missing(backend.module) else None
    if module.file is None:  # a folder without __init__.py: what an uninstalled package left, or half of one
        remaining_names = {name for folder in module.folders for name in modules.names(folder)}
        return (
            backend.module
            if remaining_names <= {"__pycache__"} and not modules.is_dynamic(backend.module)
            else None
        )
    offered = list_bindings(modules.text(module.file)) if module.file.endswith(".py") else None
    first = backend.function.partition(".")[0]
    # An archive cannot be read so, and a module may make its names at run time.
    if module.is_archived or offered is None or not first or first in offered:
        return None
    return f"{backend.module}:{backend.function}"


def find_missing_import(host: Host, backend: Backend) -> Optional[str]:
    """What the source of a back end's module imports unconditionally and certainly does not exist; None
    otherwise.
    """
    modules = modules_of(host)
    module = modules.find(backend.module)
    text = modules.text(module.file) if module is not None and module.file and not module.is_archived else ""
    if module is None or not text or modules.is_dynamic(f"{backend.module}.any"):
        return None
    there = {name.partition(".")[0] for folder in module.folders for name in modules.names(folder)}
    parts = sorted(read_submodule_imports(text) - there) if module.folders else []
    if parts:
        return f"{backend.module}.{parts[0]}"
    own: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())  # since 3.10
    names = sorted(read_imports(text) - own) if own else []
    return next((name for name in names if modules.is_missing(name)), None)


def find_unusable_plugins(host: Host) -> Iterator[tuple[str, str]]:
    """Yield (framework, path) of the files in the folders of plug-ins that no loader can load."""
    for site in dict.fromkeys(host.interpreter.layout().search_path):
        for framework, name in _FOLDERS.items():
            folder = f"{site}/{name}"
            if name not in modules_of(host).names(site):
                continue
            copies = ("tensorflow", "tensorflow-cpu", "paddlepaddle", "paddlepaddle-gpu")
            if not any(module_of(copy) == framework and host.interpreter.installed(copy) for copy in copies):
                continue
            for file in host.files.names(folder):
                path = f"{folder}/{file}"
                entry = host.files.stat(path) if file.endswith(".so") else None
                if entry is not None and entry.is_file and _is_unusable(host, path, entry.size):
                    yield framework, path


def _is_unusable(host: Host, path: str, size: int) -> bool:
    """Return whether a file is no library, or one that has lost a part: mapping it ends Python by SIGBUS."""
    from npudoctor.host.libraries.elf import MAGIC  # most runs look into no library
    from npudoctor.host.libraries.elf_damage import is_damaged

    with host.files.open_file(path) as file:
        return file.read(0, len(MAGIC)) != MAGIC or is_damaged(file, size)
