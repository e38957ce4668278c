"""The Python packages that CANN brings: the copies that an interpreter finds, and the wheels it ships."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Optional

from npudoctor.core.cann_version import is_at_least
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.facts.cann import set_env as cann_env
from npudoctor.facts.cann.installations import Install
from npudoctor.facts.job.working_directory import foreign_user
from npudoctor.host.fs.files import Files
from npudoctor.host.host import Host
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.metadata import parse_headers
from npudoctor.host.users.access import ENTER, READ, first_barrier

# Where each tells the version of its CANN: the version that pip knows never changes.
MARKS = {"te": "te/version.py", "hccl": "hccl/sys_version.py"}
# By age of the release, the newest layout first.
WHEEL_FOLDERS = ("compiler/lib64", "hccl/lib64", "lib64", "fwkacllib/lib64")

VERSION_LIMIT = 1 << 13  # bytes of a file that tells a version

_VERSION = pattern(r"""^[ \t]*(?:__sys_version__|version)[ \t]*=[ \t]*["']([^"'\n]+)["']""", re.MULTILINE)
_WHEEL = pattern(r"(te|topi|hccl)-\d[^/]*\.whl\Z")


@dataclass(frozen=True)
class PackageCopy:
    """A package in a folder of the search path; `version`: the component number that it states, None where it
    states none.
    """

    name: str
    folder: str
    version: Optional[str]


def find_copies(files: Files, name: str, folders: Iterable[str]) -> list[PackageCopy]:
    """Every copy of a package in these folders, the one that Python imports first; each folder once."""
    copies_by_folder: dict[str, PackageCopy] = {}
    for folder in folders:
        copy = find_copy(files, name, folder) if folder.startswith("/") else None
        if copy is not None:
            copies_by_folder.setdefault(files.real(folder) or folder, copy)
    return list(copies_by_folder.values())


def find_closed_copy(host: Host, name: str, folders: Iterable[str]) -> Optional[str]:
    """The first folder whose copy of the package the job's user may not read; None where there is none, or
    where another copy can be read, since Python skips the closed one.
    """
    closed = None
    for folder in folders:
        if folder.startswith("/") and is_closed_to_job(host, name, folder):
            closed = closed or folder
        elif folder.startswith("/") and find_copy(host.files, name, folder):
            return None
    return closed


def is_closed_to_job(host: Host, name: str, folder: str) -> bool:
    """Return whether the package is in this folder, and the job's user may not enter it or read its files."""
    path, foreign = f"{folder}/{name}", foreign_user(host)
    # In an image the modes say nothing about the user of a later job.
    if not folder.startswith("/") or host.options.root is not None:
        return False
    try:
        entry = host.files.stat(path)
        if entry is None:
            return False
        if foreign is not None:
            return first_barrier(host.files, path, foreign) is not None or foreign.is_denied(
                entry, ENTER | READ
            )
        host.files.names(path)
        host.files.read(f"{folder}/{MARKS[name]}", 1)
    # Only a missing permission means closed; a server that hangs is reported as such.
    except CannotTell as error:
        if not isinstance(error.__cause__, PermissionError):
            raise
        return True
    return False


def find_copy(files: Files, name: str, folder: str) -> Optional[PackageCopy]:
    """The package in this folder; None where there is none."""
    if files.stat(f"{folder}/{name}") is None:
        return None
    text = files.text(f"{folder}/{MARKS[name]}", VERSION_LIMIT)
    if text is None:
        return PackageCopy(name, folder, None) if files.stat(f"{folder}/{name}/__init__.py") else None
    return PackageCopy(name, folder, parse_version(text))


def parse_version(text: str) -> Optional[str]:
    """The version that the text of such a file assigns; None when it assigns none."""
    match = _VERSION.search(text)
    return match[1] if match else None


def own_site(files: Files, install: Install, name: str) -> Optional[str]:
    """The installation's own site-packages that has this package; None where none has."""
    for folder in cann_env.SITES:
        path = f"{install.path}/{folder}"
        if cann_env.exists(files, f"{path}/{name}"):
            return path
    return None


def find_metadata(files: Files, site: str, name: str) -> Optional[Distribution]:
    """The metadata of a package in a folder that may be on no search path; None where there is none."""
    # Wheels: te-0.4.0.dist-info; eggs: te-0.4.0-py3.8.egg-info.
    form = re.compile(rf"{name}-(\d[^-]*)(?:-.*)?\.(?:dist|egg)-info\Z")
    for entry in files.names(site):
        match = form.match(entry)
        for path in (f"{site}/{entry}/METADATA", f"{site}/{entry}/PKG-INFO") if match else ():
            text = files.text(path)
            if match and text is not None:
                return Distribution(name, match[1], f"{site}/{entry}", parse_headers(text))
    return None


def wheels(files: Files, install: Install, names: Iterable[str]) -> list[str]:
    """The paths of the wheels of these packages that an installation ships. topi goes with te up to 8.0, and
    never later.
    """
    packages = set(names)
    if "te" in packages and (install.before_6 or is_at_least(install.version, "8.1") is False):
        packages.add("topi")
    paths: dict[str, str] = {}
    for folder in WHEEL_FOLDERS:
        try:
            shipped = files.names(f"{install.path}/{folder}")
        except CannotTell:
            continue
        for file in shipped:
            match = _WHEEL.match(file)
            if match and match[1] in packages:
                paths.setdefault(match[1], f"{install.path}/{folder}/{file}")
    return [paths[name] for name in sorted(paths)]


def ships_package(files: Files, install: Install, name: str) -> bool:
    """Return whether this release has the package at all."""
    return own_site(files, install, name) is not None or bool(wheels(files, install, [name]))
