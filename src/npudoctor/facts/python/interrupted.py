"""Packages that a stopped pip left in two halves, and folders that are half a package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.facts.python.frameworks import closure_of, installed_job_distributions, job_distributions
from npudoctor.facts.python.installed_modules import list_recorded_files, module_of, modules_of
from npudoctor.host.host import Host
from npudoctor.host.python.installed_files import (
    InstalledFile,
    find_damage,
    read_recorded_files,
    site_of,
)
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.host.python.metadata import parse_headers, read_metadata
from npudoctor.knowledge import requirements as rows
from npudoctor.knowledge.distributions import TABLE

# What jobs import besides frameworks, and what is often installed over one another.
COMPANIONS = (
    *("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"),
    *("tokenizers", "triton", "scipy", "numpy"),
)
# pip's AdjacentTempDirectory: ~ and perhaps more of these in the place of as many first letters.
_STASHED = pattern(r"~[-~.=%0-9]*(?P<tail>.*)")
_INFO = pattern(r"(?P<name>.*?)-(?P<version>\d[^-]*)\.(?:dist-info|egg-info)\Z")
# They look for the version of the framework that they extend: importlib.metadata.version("torch") in
# accelerate/utils/versions.py of 1.15, is_torch_available in transformers 5.24.
_ASKING = ("transformers", "accelerate")
_SHORTEST = 3  # letters that are left of a name; fewer could be anything's
_MANY = 20  # modules that no folder of another purpose has
_DEPTH = 3  # folders down to which a package's modules are looked for


@dataclass(frozen=True)
class StoppedInstall:
    """A distribution that pip was replacing or removing when it was stopped.

    `version`: of the one that was moved aside, "" if unknown. `leftovers`: the paths under which its parts
    lie now. `state`: "whole", "gone" where its package cannot be imported, "unfinished" where it is there in
    part, "unrecorded" where all of it is there and only its metadata is not.
    """

    name: str
    version: str
    site: str
    leftovers: tuple[str, ...]
    state: str

    @property
    def requirement(self) -> str:
        """What pip is told to install this very release."""
        return f"{self.name}=={self.version}" if self.version else self.name


@dataclass(frozen=True)
class HalfPackage:
    """A folder that holds modules of a package and lacks what makes it one. `count`: of modules that it
    holds."""

    name: str
    version: str
    folder: str
    count: int


def relevant_modules(host: Host) -> dict[str, str]:
    """The frameworks, what jobs import beside them, and all that the installed ones require: the module of
    each, by the distribution's name."""
    own = {member.name: member.modules[0] for member in job_distributions(host) if member.modules}
    others = sorted({*COMPANIONS, *closure_of(host).names} - own.keys())
    return {**own, **{name: module_of(name) for name in others}}


def find_asking(host: Host, name: str) -> Optional[str]:
    """An installed package that looks for the version of this one when it is imported, and ends where there
    is no metadata of it; None if none is known. Most never look."""
    frameworks = {member.name for member in job_distributions(host) if not member.trainer}
    for asking, copy in installed_job_distributions(host).items():
        if asking.name == name or not copy.headers:
            continue
        enforced = rows.find_enforced_row(host.knowledge, asking.name, copy.version, name) is not None
        if enforced or (asking.name in _ASKING and name in frameworks and asking.after == name):
            return copy.label
    return None


def list_stopped(host: Host) -> list[StoppedInstall]:
    """What a stopped pip left of frameworks and of what they require; found once."""
    return host.once("installs that were stopped", lambda: list(_find_stopped(host)))


def _find_stopped(host: Host) -> Iterator[StoppedInstall]:
    for site in host.interpreter.layout().search_path:
        stashed = sorted(name for name in modules_of(host).names(site) if name.startswith("~"))
        if not stashed or not site.endswith("-packages"):
            continue
        module_by_name = relevant_modules(host)
        leftovers_by_name: dict[str, list[str]] = {}
        version_by_name: dict[str, str] = {}
        owner_by_top: dict[str, str] = {}
        for entry in (entry for entry in stashed if entry.endswith("-info")):
            name, version = _read_identity(host, f"{site}/{entry}", module_by_name)
            if name in module_by_name:
                leftovers_by_name[name] = [f"{site}/{entry}"]
                version_by_name[name] = version
                for top in _list_tops(_read_stashed_record(host, site, entry)):
                    owner_by_top[top] = name
        for name, module in module_by_name.items():
            owner_by_top.setdefault(module.partition(".")[0], name)
            owner_by_top.setdefault(f"{module}.libs", name)
            copy = host.interpreter.installed(name)
            for top in _list_tops(list_recorded_files(host, copy)) if copy is not None else ():
                owner_by_top[top] = name
        for entry in (entry for entry in stashed if not entry.endswith("-info")):
            owner = owner_by_top.get(_original_name(entry, owner_by_top))
            if owner is not None:
                leftovers_by_name.setdefault(owner, []).append(f"{site}/{entry}")
        for name, leftovers in sorted(leftovers_by_name.items()):
            yield _describe(host, name, version_by_name.get(name, ""), site, leftovers)


def _original_name(entry: str, names: Iterable[str]) -> str:
    """The name that pip changed to this one; "" if none of these fits."""
    match = _STASHED.fullmatch(entry)
    tail = match["tail"] if match else ""
    fitting = [name for name in names if len(tail) >= _SHORTEST - 1 and name.endswith(tail)]
    # Of several, the one that is as long as the new name.
    return min(fitting, key=lambda name: (abs(len(name) - len(entry)), name), default="")


def _read_identity(host: Host, folder: str, names: Iterable[str]) -> tuple[str, str]:
    """Name and version by metadata that was moved aside; by the folder's name where it is empty."""
    headers = dict(parse_headers(read_metadata(host.files, folder)))
    if headers.get("name"):
        return normalize_name(headers["name"]), headers.get("version", "")
    match = _INFO.match(folder.rpartition("/")[2])
    if match is None:
        return "", ""
    by_spelling = {name.replace("-", "_"): name for name in names}
    spelled = match["name"].lower()
    return by_spelling.get(_original_name(spelled, by_spelling), ""), match["version"]


def _read_stashed_record(host: Host, site: str, entry: str) -> list[InstalledFile]:
    return read_recorded_files(host.files, Distribution("", "", f"{site}/{entry}", ()))


def _list_tops(listed: Sequence[InstalledFile]) -> set[str]:
    return {file.path.partition("/")[0] for file in listed}


def _describe(host: Host, name: str, version: str, site: str, leftovers: Sequence[str]) -> StoppedInstall:
    copy = host.interpreter.installed(name)
    if copy is not None and site_of(copy) != site:
        copy = None
    listed = list_recorded_files(host, copy) if copy is not None else []
    state = "unrecorded"
    if listed and copy is not None:
        state = "unfinished" if find_damage(host.files, copy, listed).missing else "whole"
    elif not _has_package(host, relevant_modules(host)[name], site):
        state = "gone"
    elif copy is not None and copy.folder.endswith(".dist-info"):
        state = "unfinished"  # the list of its files is written last
    elif not any(path.endswith("-info") for path in leftovers):
        state = "whole"  # without the old list only what it imports tells
    elif _is_cut(host, name, site, leftovers):
        state = "unfinished"
    return StoppedInstall(name, version or (copy.version if copy else ""), site, tuple(leftovers), state)


def _has_package(host: Host, module: str, site: str) -> bool:
    path = f"{site}/{module.replace('.', '/')}"
    folder, _slash, last = path.rpartition("/")
    names = modules_of(host).names
    return f"{last}.py" in names(folder) or any(part.startswith("__init__.") for part in names(path))


def _is_cut(host: Host, name: str, site: str, leftovers: Sequence[str]) -> bool:
    """Return whether files are not there, or not as long, as the list that was moved aside says."""
    folder = next((path for path in leftovers if path.endswith("-info")), "")
    old = Distribution(name, "", folder, ())
    listed = _read_stashed_record(host, site, folder.rpartition("/")[2])
    damage = find_damage(host.files, old, listed)
    return not listed or bool(damage.missing or damage.short)


def find_stop_codes(host: Host) -> tuple[str, ...]:
    """The code under which it is said that a stopped pip left a package unusable; () where none is."""
    is_grave = any(stopped.state in ("gone", "unfinished") for stopped in list_stopped(host))
    return ("package-files.interrupted",) if is_grave else ()


def find_damage_codes(host: Host, name: str) -> tuple[str, ...]:
    """The codes under which it is said that half of a distribution is there, which then is not installed."""
    codes = []
    if any(stopped.name == name and stopped.state != "whole" for stopped in list_stopped(host)):
        codes.append("package-files.interrupted")
    if any(half.name == name for half in list_half_packages(host)):
        codes.append("package-files.missing")
    return tuple(codes)


def list_half_packages(host: Host) -> list[HalfPackage]:
    """Folders with a framework's name, or that of something it requires, which hold its modules and no
    `__init__`; found once. Not where a list of files tells what is missing."""
    return host.once("half packages", lambda: list(_find_half_packages(host)))


def _find_half_packages(host: Host) -> Iterator[HalfPackage]:
    modules = modules_of(host)
    seen: set[str] = set()
    # Without a folder or a distribution that the table names there is nothing to ask it about.
    if not host.knowledge.may_mention(TABLE, host.interpreter.seen_names()):
        return
    for name, module in relevant_modules(host).items():
        first = module.partition(".")[0]
        for site in host.interpreter.layout().search_path:
            folder = f"{site}/{module.replace('.', '/')}"
            if not site.endswith("-packages") or folder in seen or first not in modules.names(site):
                continue
            inside = modules.names(folder)
            if not inside or any(part.startswith("__init__.") for part in inside):
                continue
            seen.add(folder)
            copy = host.interpreter.installed(name)
            if copy is not None and list_recorded_files(host, copy):
                continue
            winner = modules.find(module)
            count, compiled = _count_modules(host, folder, _DEPTH)
            if (winner is None or winner.file is None) and (compiled or count >= _MANY):
                yield HalfPackage(name, copy.version if copy is not None else "", folder, count)


def _count_modules(host: Host, folder: str, depth: int) -> tuple[int, bool]:
    """How many modules lie in a folder and those below it, and whether one of them is compiled."""
    count, compiled = 0, False
    for name in modules_of(host).names(folder):
        if name.endswith((".py", ".so")) or re.search(r"\.so\.[\d.]+\Z", name):
            count, compiled = count + 1, compiled or ".so" in name
        elif depth and "." not in name and name != "__pycache__":
            more, more_compiled = _count_modules(host, f"{folder}/{name}", depth - 1)
            count, compiled = count + more, compiled or more_compiled
    return count, compiled
