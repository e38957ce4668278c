"""Whose a file is that a failed import speaks of: a distribution's, the standard library's, the job's."""

from __future__ import annotations

import re
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.host import Host
from npudoctor.host.python.installed_files import RECORD_LIMIT, site_of
from npudoctor.host.python.interpreter import Distribution

_STANDARD = pattern(r"/(?:lib|lib64)/python[\d.]+t?(?:/(?!site-packages/|dist-packages/)|\Z)")


@dataclass(frozen=True)
class Owner:
    """`distribution`: what brings the file. `place`: its path below the folder in which that lies."""

    distribution: Distribution
    place: str

    @property
    def label(self) -> str:
        """Name and version."""
        return self.distribution.label


def owner_of(host: Host, path: Optional[str]) -> Optional[Owner]:
    """The distribution whose list of files has this one; where none has it, the one of its folder. Of a name
    that is told from a folder which nobody knows: none."""
    if not path or not path.startswith("/"):
        return None
    for name in dict.fromkeys((path, host.files.real(path))):
        # The folders for packages, the deepest first: one may lie in another.
        folders = {site_of(copy) for copy in host.interpreter.all_installed()}
        for site in sorted(folders, key=len, reverse=True):
            if name and name.startswith(f"{site}/"):
                owner = _in_folder(host, site, name[len(site) + 1 :])
                if owner is not None:
                    return owner
    return None


def _in_folder(host: Host, folder: str, place: str) -> Optional[Owner]:
    first = place.partition("/")[0]
    # Byte code has no line of its own everywhere: its source has.
    source = re.sub(r"(?:__pycache__/)?([^/]+?)(?:\.cpython-\d+(?:\.opt-\d)?)?\.pyc\Z", r"\1.py", place)
    beside: Optional[Owner] = None
    for copy in host.interpreter.all_installed():
        if site_of(copy) != folder:
            continue
        listed = files_of(host, copy)
        if f"\n{place}," in listed or f"\n{source}," in listed:
            return Owner(copy, place)
        if beside is None and "/" in place and f"\n{first}/" in listed:
            beside = Owner(copy, place)
    return beside


def owner_of_module(host: Host, module: str) -> Optional[Owner]:
    """The distribution that has a module by this full name in its list of files."""
    path = module.replace(".", "/")
    for copy in host.interpreter.all_installed():
        listed = files_of(host, copy)
        for place in (f"{path}/__init__.py", f"{path}.py"):
            if f"\n{place}," in listed:
                return Owner(copy, place)
        match = re.search(rf"\n({re.escape(path)}\.[^/\n,]*\.?so),", listed)
        if match:
            return Owner(copy, match[1])
    return None


def owner_of_library(host: Host, name: str) -> Optional[Owner]:
    """The distribution that has a shared library of this name in its list of files."""
    for copy in host.interpreter.all_installed():
        match = re.search(rf"\n((?:[^\n,]*/)?{re.escape(name)}),", files_of(host, copy))
        if match:
            return Owner(copy, match[1])
    return None


def distribution_below(host: Host, top: str) -> Optional[Distribution]:
    """The first distribution that has anything below this top-level name in its list of files."""
    parts = (f"\n{top}/", f"\n{top}.py,", f"\n{top}.")
    copies = host.interpreter.all_installed()
    return next((copy for copy in copies if any(part in files_of(host, copy) for part in parts)), None)


def path_of(owner: Owner) -> str:
    """Where the file is, or should be."""
    return f"{site_of(owner.distribution)}/{owner.place}"


def is_standard_library(path: str) -> bool:
    """Whether a file is of Python itself, or of what Python generates."""
    return path.startswith("<") or bool(_STANDARD.search(path))


def shadowing_path(host: Host, module: str) -> Optional[str]:
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


def files_of(host: Host, copy: Distribution) -> str:
    """The text of its list of files, each line begun by a line feed; "" where it has none."""

    def read() -> str:
        try:
            return "\n" + (host.files.text(f"{copy.folder}/RECORD", RECORD_LIMIT) or "")
        except CannotTell:
            return "\n"

    return host.once(f"files of {copy.folder}", read)


def is_byte_code_stale(host: Host, path: str, name: str) -> bool:
    """Whether the source of a module has a name that its byte code surely has not."""
    cached = _byte_code(host, path) if path.endswith(".py") else None
    if cached is None:
        return False
    # Whether some line gives it a value, whatever else decides about that line.
    word = re.escape(name)  # out of what the job printed
    binds = rf"(?m)^[ \t]*(?:def|class|async def)\s+{word}\b|^[ \t]*{word}[ \t]*=[^=]"
    if not re.search(binds, host.files.text(path) or ""):
        return False
    return name.encode() not in (host.files.read(cached) or name.encode())


def _byte_code(host: Host, path: str) -> Optional[str]:
    """The only file of byte code that this Python could take for a source; None where there are more."""
    folder, _slash, file = path.rpartition("/")
    tag = "".join((host.interpreter.layout().version or "").split(".")[:2])
    pattern = re.compile(rf"{re.escape(file[: -len('.py')])}\.cpython-{tag}(\.opt-\d)?\.pyc")
    names = [name for name in host.files.names(f"{folder}/__pycache__") if pattern.fullmatch(name)]
    return f"{folder}/__pycache__/{names[0]}" if len(names) == 1 else None


def is_replaced(host: Host, owner: Owner, path: str) -> bool:
    """Whether a module has another size than its list of files has; false where it is not listed."""
    entry = host.files.stat(path)
    line = rf"\n{re.escape(owner.place)},[^\n,]*,(\d+)(?=[\r\n]|\Z)"
    listed = re.search(line, files_of(host, owner.distribution))
    return path.endswith(".py") and entry is not None and listed is not None and entry.size != int(listed[1])
