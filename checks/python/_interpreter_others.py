"""The other interpreters of a machine: the notebook's kernel, and those that have a framework."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Optional

from npudoctor import Host
from npudoctor.host import CannotTell
from npudoctor.host.python.interpreter import Distribution, Interpreter
from npudoctor.host.variables import Variables

OF_THE_USER = ("HOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE")
_PYTHON = re.compile(r"python(3(\.\d+)?)?\Z")


def kernel_of_notebook(host: Host) -> Optional[str]:
    """The interpreter of the kernel that we were started from, where it is another environment's.

    Jupyter tells its kernels its own pid; of what they start, the kernel is an ancestor.
    """
    if host.options.root is not None or host.interpreter.chosen_by == "option":
        return None
    if not host.variables.get("JPY_PARENT_PID"):
        return None
    processes = host.processes
    for pid in processes.ancestors(processes.self_pid):
        argv = processes.arguments(pid) or ()
        if any("ipykernel" in word for word in argv[1:]):
            path = argv[0] if argv[0].startswith("/") else processes.exe(pid)
            return path if path and not _same(host, path) else None
    return None


def others(host: Host, frameworks: Sequence[str]) -> Iterator[tuple[str, Distribution]]:
    """Interpreters of PATH and of the active environment that have one of these, read and not run."""
    if host.options.root is not None or host.interpreter.chosen_by != "path":
        return
    users = {name: value for name, value in host.variables.items() if name in OF_THE_USER}
    for path in _candidates(host):
        other = Interpreter(
            path, "path", files=host.files, commands=None, variables=Variables(users), as_root=True
        )
        for name in frameworks:
            with suppress(CannotTell):
                for copy in other.distributions(name)[:1]:
                    yield path, copy


def _candidates(host: Host) -> Iterator[str]:
    folders = [
        f"{host.variables[name]}/bin" for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if host.variables.get(name)
    ]
    for folder in dict.fromkeys([*folders, *host.variables.path_list("PATH")]):
        try:
            names = host.files.names(folder) if folder.startswith("/") else []
        except CannotTell:
            continue
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            if _PYTHON.match(name) and path != host.interpreter.path:
                yield path


def _same(host: Host, path: str) -> bool:
    """Whether a path is of the environment that is examined: in the same folder."""
    mine, theirs = (host.files.real(one.rpartition("/")[0]) for one in (host.interpreter.path, path))
    return mine is not None and mine == theirs
