"""The remedies for what PYTHONPATH puts in front of the interpreter's own packages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Optional

from npudoctor import Command, Export, Fix, Host, Risk, _
from npudoctor.facts.python.frameworks import closure_of
from npudoctor.facts.python.installed_modules import list_recorded_files
from npudoctor.facts.python.pip import entry_of, uses_uv
from npudoctor.host import CannotTell
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Distribution, normalize_name

PipLine = tuple[str, ...]
Complete = Callable[[PipLine], Iterable[PipLine]]
# Options of pip that have a value.
VALUED = ("--dest", "--find-links", "--extra-index-url", "--target")
NAMED = 3  # packages of a title
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def remove_from_pythonpath(host: Host, folder: str) -> Optional[Fix]:
    """Return the line that removes the folder from PYTHONPATH; None if PYTHONPATH does not contain it, or if
    a framework would be gone with it."""
    real = host.files.real(folder)
    entries = host.variables.get("PYTHONPATH", "").split(":")
    entry = next((path for path in entries if path.startswith("/") and host.files.real(path) == real), None)
    if entry is None or frameworks_only_in(host, entry):
        return None
    return _shorten_pythonpath(host, entry, _("remove {entry} from PYTHONPATH", entry=entry))


def frameworks_only_in(host: Host, folder: str) -> list[Distribution]:
    """Return the frameworks that Python finds nowhere else: they are gone if the folder is. A folder `torch`
    without metadata is none: it may be what hides the framework."""
    real = host.files.real(folder) or folder
    try:
        roots = [root for root in closure_of(host).roots if root.folder.endswith("-info")]
        return [root for root in roots if _lies_only_in(host, root, real)]
    except CannotTell:
        return []


def _lies_only_in(host: Host, root: Distribution, real: str) -> bool:
    sites = map(site_of, host.interpreter.distributions(root.name))
    return all((host.files.real(site) or site) == real for site in sites)


def uncover_packages(host: Host, name: str, lines: Sequence[PipLine], complete: Complete) -> Optional[Fix]:
    """Return the fix if PYTHONPATH provides this package, so that what pip installs would not be found: it
    removes the entry, or changes the package there if Python would lose a framework or this package with it.

    `complete`: makes of a line of pip what is typed.
    """
    for copy in host.interpreter.distributions(name)[:1]:
        entry = entry_of(host, copy)
        if entry is None or _is_only_pinned(copy, lines):
            continue
        lost = _list_lost(host, entry, copy)
        title = _(
            "remove {entry} from PYTHONPATH: its {name} hides the one that pip installs",
            entry=entry,
            name=copy.label,
        )
        if not lost:
            return _shorten_pythonpath(host, entry, title)
        requirements = [word for line in lines for word in _list_requirements(line)]
        return _replace_in_entry(host, entry, lost, requirements, complete) or _move_to_interpreter(
            host, entry, lost, requirements, complete
        )
    return None


def _list_lost(host: Host, entry: str, copy: Distribution) -> list[Distribution]:
    """Return what Python would not find any more without the entry: frameworks, else this package, with the
    others that the entry alone provides, as a folder of vendored packages has them."""
    frameworks = frameworks_only_in(host, entry)
    real = host.files.real(entry) or entry
    if frameworks or not _lies_only_in(host, copy, real):
        return frameworks
    others = [
        other
        for other in host.interpreter.all_installed()
        if (host.files.real(site_of(other)) or site_of(other)) == real and _lies_only_in(host, other, real)
    ]
    return list({normalize_name(other.name): other for other in (copy, *others)}.values())


def _is_only_pinned(copy: Distribution, lines: Sequence[PipLine]) -> bool:
    """Whether the lines name this copy only in order to keep it: `install torch==2.7.1 'numpy<2'`."""
    about = [line for line in lines if any(_name_of(word) == normalize_name(copy.name) for word in line[1:])]
    return all(
        line[0] == "install"
        and "--force-reinstall" not in line
        and copy.requirement in line
        and len(_list_requirements(line)) > 1
        for line in about
    )


def _list_requirements(line: PipLine) -> list[str]:
    """The packages that a line of pip names with a version or without, not its options and their values."""
    words = [word for before, word in zip(line, line[1:]) if before not in VALUED]
    return [
        word for word in words if not word.startswith("-") and "/" not in word and not word.endswith("==")
    ]


def _replace_in_entry(
    host: Host,
    entry: str,
    lost: Sequence[Distribution],
    requirements: Sequence[str],
    complete: Complete,
) -> Optional[Fix]:
    """Return the lines that install the packages into the entry; None if pip would replace folders there that
    other packages share (google, nvidia)."""
    wanted = {_name_of(word): word for word in requirements}
    first_copies = {name: host.interpreter.distributions(name)[:1] for name in wanted}
    there = {
        name: copies[0]
        for name, copies in first_copies.items()
        if copies and entry_of(host, copies[0]) == entry
    }
    # Of a line that changes some and pins the others, those are meant that it changes.
    changed = {name: copy for name, copy in there.items() if wanted[name] != copy.requirement}
    there = changed or there
    if not there or not all(_owns_its_folders(host, copy) for copy in there.values()):
        return None
    words = [wanted[name] for name in there]
    steps = list(complete(("install", "--upgrade", "--no-deps", "--target", entry, *words)))
    # With --target pip leaves the metadata of other versions. uv removes that of one, and takes "-" for "_".
    left = [
        copy.folder
        for name in there
        for copy in host.interpreter.distributions(name)
        if entry_of(host, copy) == entry and copy.requirement != wanted[name]
    ]
    if left and not uses_uv(host):
        steps.append(("rm", "-r", *left))
    title = _(
        "replace {name} in {entry}, which PYTHONPATH searches first and which provides {frameworks}",
        name=", ".join(copy.label for copy in there.values()),
        entry=entry,
        frameworks=", ".join(copy.label for copy in lost[:NAMED]) + (" ..." if len(lost) > NAMED else ""),
    )
    return Fix(title, tuple(map(Command, steps)), risk=Risk.MANUAL, needs_root=False)


def _owns_its_folders(host: Host, copy: Distribution) -> bool:
    """Whether all folders that pip would replace are this package's alone, by its list of files."""
    site, paths = site_of(copy), {file.path for file in list_recorded_files(host, copy)}
    tops = {path.partition("/")[0] for path in paths if "/" in path}
    shared = [top for top in tops if f"{top}/__init__.py" not in paths and not top.endswith(".libs")]
    own = {"/".join(path.split("/")[:2]) for path in paths}
    return bool(paths) and all(
        f"{top}/{name}" in own for top in shared for name in host.files.names(f"{site}/{top}")
    )


def _move_to_interpreter(
    host: Host,
    entry: str,
    frameworks: Sequence[Distribution],
    requirements: Sequence[str],
    complete: Complete,
) -> Fix:
    """Return the lines that remove the entry and install what it provided, with what that requires."""
    fix = _shorten_pythonpath(
        host,
        entry,
        _(
            "remove {entry} from PYTHONPATH and install what only this entry provides: {frameworks}",
            entry=entry,
            frameworks=", ".join(root.name for root in frameworks[:NAMED])
            + (" ..." if len(frameworks) > NAMED else ""),
        ),
    )
    names = set(map(_name_of, requirements))
    lost = [root.requirement for root in frameworks if normalize_name(root.name) not in names]
    steps = (*fix.steps, *map(Command, complete(("install", *lost, *requirements))))
    return Fix(fix.title, steps, undo=fix.undo, risk=Risk.MANUAL, needs_root=False)


def _name_of(requirement: str) -> str:
    match = _NAME.match(requirement)
    return normalize_name(match[0].rstrip(".-")) if match else ""


def _shorten_pythonpath(host: Host, entry: str, title: str) -> Fix:
    before = host.variables["PYTHONPATH"]
    rest = ":".join(other for other in before.split(":") if other != entry)
    step = Export("PYTHONPATH", rest) if rest else Command(("unset", "PYTHONPATH"))
    undo = Export("PYTHONPATH", before).lines()
    return Fix(title, steps=(step,), undo=undo, risk=Risk.MANUAL, needs_root=False)
