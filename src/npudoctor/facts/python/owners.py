"""Whose a file is that a failed import speaks of: a distribution's, the standard library's, the job's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.host import Host
from npudoctor.host.python.installed_files import RECORD_LIMIT, site_of
from npudoctor.host.python.interpreter import Distribution

_STANDARD = re.compile(r"/(?:lib|lib64)/python[\d.]+t?(?:/(?!site-packages/|dist-packages/)|\Z)")


@dataclass(frozen=True)
class Owner:
    """`distribution`: what brings the file. `place`: its path below the folder in which that lies."""

    distribution: Distribution
    place: str

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.distribution.name} {self.distribution.version}"


def owner_of(host: Host, path: Optional[str]) -> Optional[Owner]:
    """The distribution whose list of files has this one; where none has it, the one of its folder. Of a name
    that is told from a folder which nobody knows: none."""
    if not path or not path.startswith("/"):
        return None
    for one in dict.fromkeys((path, host.files.real(path))):
        for folder in _folders(host):
            if one and one.startswith(f"{folder}/"):
                found = _in_folder(host, folder, one[len(folder) + 1 :])
                if found is not None:
                    return found
    return None


def _in_folder(host: Host, folder: str, place: str) -> Optional[Owner]:
    first = place.partition("/")[0]
    # Byte code has no line of its own everywhere: its source has.
    source = re.sub(r"(?:__pycache__/)?([^/]+?)(?:\.cpython-\d+(?:\.opt-\d)?)?\.pyc\Z", r"\1.py", place)
    beside: Optional[Owner] = None
    for found in _of_folder(host, folder):
        listed = files_of(host, found)
        if any(f"\n{one}," in listed for one in (place, source)):
            return Owner(found, place)
        if beside is None and "/" in place and f"\n{first}/" in listed:
            beside = Owner(found, place)
    return beside


def brings(host: Host, module: str) -> Optional[Owner]:
    """The distribution that has a module by this full name in its list of files."""
    path = module.replace(".", "/")
    for found in _all(host):
        listed = files_of(host, found)
        for place in (f"{path}/__init__.py", f"{path}.py"):
            if f"\n{place}," in listed:
                return Owner(found, place)
        match = re.search(rf"\n({re.escape(path)}\.[^/\n,]*\.?so),", listed)
        if match:
            return Owner(found, match[1])
    return None


def family(host: Host, module: str) -> Optional[Distribution]:
    """The first distribution that has anything below this top-level name in its list of files."""
    parts = (f"\n{module}/", f"\n{module}.py,", f"\n{module}.")
    return next((one for one in _all(host) if any(part in files_of(host, one) for part in parts)), None)


def brings_library(host: Host, name: str) -> Optional[Owner]:
    """The distribution that has a shared library of this name in its list of files."""
    for found in _all(host):
        match = re.search(rf"\n((?:[^\n,]*/)?{re.escape(name)}),", files_of(host, found))
        if match:
            return Owner(found, match[1])
    return None


def path_of(owner: Owner) -> str:
    """Where the file is, or should be."""
    return f"{site_of(owner.distribution)}/{owner.place}"


def is_standard(path: str) -> bool:
    """Whether a file is of Python itself, or of what Python generates."""
    return path.startswith("<") or bool(_STANDARD.search(path))


def shadowing(host: Host, module: str) -> Optional[str]:
    """The file or folder of the job that takes the place of a module: in the working directory, or in
    PYTHONPATH, in front of where it is installed."""
    here = working_directory(host)
    first = [here] if here is not None and not host.variables.get("PYTHONSAFEPATH") else []
    top = module.partition(".")[0]
    for folder in (*first, *host.variables.path_list("PYTHONPATH")):
        for path in (f"{folder}/{top}/__init__.py", f"{folder}/{top}.py", f"{folder}/{top}"):
            entry = host.files.stat(path) if folder.startswith("/") else None
            if entry is None or not (entry.is_file or entry.is_dir):
                continue
            if owner_of(host, f"{path}/." if entry.is_dir else path) is not None:
                break  # what is installed lies here itself
            return path
    return None


def files_of(host: Host, found: Distribution) -> str:
    """The text of its list of files, each line begun by a line feed; "" where it has none."""
    return host.once(f"files of {found.folder}", partial(_files_of, host, found))


def _files_of(host: Host, found: Distribution) -> str:
    try:
        return "\n" + (host.files.text(f"{found.folder}/RECORD", RECORD_LIMIT) or "")
    except CannotTell:
        return "\n"


def _all(host: Host) -> Iterator[Distribution]:
    return host.interpreter.all_installed()


def _of_folder(host: Host, folder: str) -> Iterator[Distribution]:
    return (found for found in _all(host) if site_of(found) == folder)


def _folders(host: Host) -> list[str]:
    """The folders for packages, the deepest first: one may lie in another."""
    folders = {site_of(found) for found in _all(host)}
    return sorted(folders, key=len, reverse=True)
