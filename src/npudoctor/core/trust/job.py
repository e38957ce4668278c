"""Whether the job's modules may be imported at all: root imports only what nobody else could have written."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.trust.trees import RootTrust

# What CANN and ATB load code by; where they only write is not among these.
_CODE = ("ASCEND_", "ATB_HOME_PATH", "TOOLCHAIN_HOME", "ASDOPS_HOME_PATH")
# Folders for logs and caches: everybody may write there, and nothing is loaded from them.
_WRITTEN = ("ASCEND_WORK_PATH", "ASCEND_CACHE_PATH", "ASCEND_PROCESS_LOG_PATH")


def why_not_imported(
    trust: RootTrust, variables: Mapping[str, str], searched: Iterable[str], until: float = math.inf
) -> Optional[str]:
    """Why root must not import a job's modules with these variables; None where it may.

    `searched`: the folders in which an import looks. `until`: a time of the steady clock, after which no
    further folder is looked into. The interpreter, its standard library and its folders for packages are
    judged when it is started.
    """
    # Lazily: the first doubt ends the search, which may go through thousands of folders.
    for why in _judge_sources(trust, variables, searched):
        if why:
            return _("not run as root, because other users may have written it: {why}", why=why)
        if time.monotonic() > until:
            return _("could not determine in time who owns the job's modules")
    return None


def _judge_sources(
    trust: RootTrust, variables: Mapping[str, str], searched: Iterable[str]
) -> Iterator[Optional[str]]:
    # PYTHONHOME replaces the standard library; LD_AUDIT loads a library before all others.
    for name in ("PYTHONHOME", "LD_AUDIT"):
        yield _("{variable} is set", variable=name) if variables.get(name) else None
    yield from map(trust.why_not_modules, searched)
    # The loader takes a semicolon, too.
    libraries = variables.get("LD_LIBRARY_PATH", "").replace(";", ":")
    yield from (trust.why_not_entries(folder) for folder in (libraries.split(":") if libraries else ()))
    preloaded = variables.get("LD_PRELOAD", "").replace(":", " ").split()
    yield from (trust.why_not_file(path) for path in preloaded if path.startswith("/"))
    code_variables = (name for name in variables if name.startswith(_CODE) and name not in _WRITTEN)
    yield from (
        trust.why_not_folder(variables[name]) for name in code_variables if variables[name][:1] == "/"
    )
