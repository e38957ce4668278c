"""Whether the job's modules may be imported at all: root imports only what nobody else could have written."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.facts.job.working_directory import absolute_search_paths, working_directory
from npudoctor.host.fs.root_trust import RootTrust
from npudoctor.host.host import Host
from npudoctor.host.libraries.loader import split_path

# What CANN and ATB load code by; where they only write is not among these.
_CODE = ("ASCEND_", "ATB_HOME_PATH", "TOOLCHAIN_HOME", "ASDOPS_HOME_PATH")
_WRITTEN = ("ASCEND_WORK_PATH", "ASCEND_CACHE_PATH", "ASCEND_PROCESS_LOG_PATH")


def why_not(host: Host, until: float = math.inf) -> Optional[str]:
    """Why nothing is imported here; None where it may be. After `until`, of the steady clock, no further
    folder is looked into, and nothing is imported.

    The interpreter, its standard library and its folders for packages are judged when it is started.
    """
    if host.options.root is not None:
        return _("an image is not running")
    if host.options.foreign_variables:
        return _("the examined variables belong to another user: run this check as that user")
    if not host.identity.is_root:
        return None
    for why in _distrusted(host, host.commands.trust):
        if why:
            return _("not run as root, because other users may have written it: {why}", why=why)
        if time.monotonic() > until:
            return _("could not determine in time who owns the job's modules")
    return None


def _distrusted(host: Host, trust: RootTrust) -> Iterator[Optional[str]]:
    variables = {**host.variables, **absolute_search_paths(host)}
    for name in ("PYTHONHOME", "LD_AUDIT"):
        yield _("{variable} is set", variable=name) if variables.get(name) else None
    yield from map(trust.why_not_modules, _searched(host, variables.get("PYTHONPATH", "")))
    libraries = split_path(variables.get("LD_LIBRARY_PATH", ""), ":;")
    yield from (trust.why_not_entries(folder) for folder in libraries)
    preloaded = variables.get("LD_PRELOAD", "").replace(":", " ").split()
    yield from (trust.why_not_file(path) for path in preloaded if path.startswith("/"))
    named = (name for name in variables if name.startswith(_CODE) and name not in _WRITTEN)
    yield from (trust.why_not_folder(variables[name]) for name in named if variables[name][:1] == "/")


def _searched(host: Host, first: str) -> list[str]:
    """The folders in which an import looks, the working directory and those of PYTHONPATH first."""
    here = working_directory(host)
    folders = [here] if here is not None and not host.variables.get("PYTHONSAFEPATH") else []
    folders += [*host.interpreter.layout().search_path, *split_path(first, ":")]
    return list(dict.fromkeys(folder for folder in folders if folder.startswith("/")))
