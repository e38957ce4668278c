"""The virtual environment to which the interpreter is a link from elsewhere, and which it does not find."""

from __future__ import annotations

from typing import NamedTuple, Optional

from npudoctor.facts.python.frameworks import job_distributions
from npudoctor.host.host import Host
from npudoctor.host.python.interpreter import Distribution, Interpreter
from npudoctor.host.variables import Variables


class LinkedEnvironment(NamedTuple):
    """The program of the environment to which the link leads, and the frameworks that only it finds."""

    folder: str
    program: str
    frameworks: tuple[Distribution, ...]


def find_linked_environment(host: Host) -> Optional[LinkedEnvironment]:
    """Return the environment to which the examined interpreter is a link, where that loses its packages.

    Python looks for pyvenv.cfg beside the path by which it was started, and in the folder above, and follows
    no link to do so (PEP 405; tried with 3.9 to 3.13). None too where the job finds the same frameworks.
    """
    path = host.interpreter.path
    if _find_settings(host, path) is not None:
        return None
    for program, entry in host.files.steps(path):
        folder = None if entry.is_dir else _find_settings(host, program)
        file = host.files.stat(program) if folder else None
        if folder is not None and file is not None and file.is_file:
            frameworks = _list_lost_frameworks(host, program)
            return LinkedEnvironment(folder, program, frameworks) if frameworks else None
    return None


def _find_settings(host: Host, program: str) -> Optional[str]:
    beside = program.rpartition("/")[0]
    folders = (beside, beside.rpartition("/")[0])
    return next((folder for folder in folders if host.files.stat(f"{folder}/pyvenv.cfg") is not None), None)


def _list_lost_frameworks(host: Host, program: str) -> tuple[Distribution, ...]:
    # Only read: the variables of the job, such as PYTHONPATH, add to both.
    other = Interpreter(
        program, "path", files=host.files, commands=None, variables=Variables({}), as_root=True
    )
    copies = ((member.name, other.installed(member.name)) for member in job_distributions(host))
    return tuple(
        copy for name, copy in copies if copy is not None and host.interpreter.installed(name) is None
    )
