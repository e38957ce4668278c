"""The remedies that install or remove packages: one place for all checks, of whatever group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor import Command, FileMark, Fix, Host, Risk, _
from npudoctor.checks.python._pythonpath import VALUED, uncover_packages
from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.facts.python.closure import Requirement, find_excluding, join_specifiers
from npudoctor.facts.python.frameworks import closure_of
from npudoctor.facts.python.pip import (
    enter_root,
    installer,
    installs_nothing,
    is_in_users_site,
    is_managed,
    needs_root,
    own_site,
    pip_argv,
    pip_first,
    uses_uv,
)
from npudoctor.facts.python.pip_obstacles import list_removals
from npudoctor.facts.python.specifiers import is_empty, simplify
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.host.python.requirements import read_requirement

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

PipLine = tuple[str, ...]
# A fork of triton for Ascend that installs into the same folder `triton`.
TRITON_ASCEND = "triton-ascend"
WHEELS = "npudoctor-wheels"  # below the working directory of who types the lines
# --no-deps: what the package requires is installed already and must not change.
_AGAIN = ("install", "--force-reinstall", "--no-deps")
# Where builds of PyTorch with a local version (2.9.0+cpu) are to be had: PyPI takes none.
_TORCH_INDEX = "https://download.pytorch.org/whl/"
_TORCH_FAMILY = ("torch", "torchvision", "torchaudio")
# The local version of a build on download.pytorch.org: cpu, cu128, rocm6.4, xpu.
_TORCH_BUILD = pattern(r"(cpu|cu\d+|rocm[\d.]+|xpu)(\.cxx11\.abi)?")
# A requirement with an exact local version, such as torch==2.9.0+cpu.
_LOCAL = pattern(r"([A-Za-z0-9][\w.-]*)[^+/\s]*===?[^+,/\s]+\+([\w.]+)")


def pip_fix(host: Host, title: str, *lines: PipLine) -> Fix:
    """Return a fix with these lines of pip, such as ("install", "numpy<2"), for the examined interpreter;
    shown only.

    If PYTHONPATH provides one of the packages, the fix is about that entry instead, because it would hide
    what pip installs. If nothing can be installed (an externally managed Python, no pip), the title says so
    and there is no line.
    """
    fixes = (
        uncover_packages(host, name, lines, lambda line: _type_line(host, line))
        for line in lines
        for name in _names(line)
    )
    uncovering_fix = next(filter(None, fixes), None)
    if uncovering_fix is not None:
        return uncovering_fix
    if installs_nothing(host):
        return Fix(
            _(
                "{title}; this Python is externally managed or has no pip: create a virtual environment",
                title=title,
            ),
            steps=(),
            risk=Risk.MANUAL,
            needs_root=needs_root(host),
        )
    without_index = [
        match[0] for line in lines for match in _list_fetched(host, line) if _index_of(match) is None
    ]
    if without_index:
        title = _(
            "{title}; no public index has {builds}: use the source that it was installed from",
            title=title,
            builds=", ".join(dict.fromkeys(without_index)),
        )
    steps = tuple(map(Command, (*pip_first(host), *_complete_lines(host, lines))))
    return Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=needs_root(host))


def _type_line(host: Host, line: PipLine) -> Sequence[PipLine]:
    return (*pip_first(host), *_complete_lines(host, [line]))


def _complete_lines(host: Host, lines: Sequence[PipLine]) -> Iterator[PipLine]:
    """Yield the lines as they are typed, and before the first that changes something, what it cannot
    replace."""
    obstacles = _find_obstacles(host, lines)
    for line in map(_drop_unknown_version, lines):
        changes = line[0] != "download" and "--dry-run" not in line
        if changes:
            yield from obstacles
            obstacles = ()
        indexes: list[str] = []
        # The indexes that its local versions need; a line that asks no index needs none.
        if line[0] in ("install", "download") and "--no-index" not in line:
            indexes = [index for index in map(_index_of, _list_fetched(host, line)) if index]
        more = [word for index in dict.fromkeys(indexes) for word in ("--extra-index-url", index)]
        if changes and is_managed(host) and "--target" not in line:  # a folder is nobody's but its owner's
            more.append("--break-system-packages")
        yield pip_argv(host, *line, *more)


def _drop_unknown_version(line: PipLine) -> PipLine:
    """Return the line without an empty version, which pip does not take: a package without metadata has none.
    Then nothing says that what it requires is there."""
    if not any(word.endswith("==") for word in line):
        return line
    return tuple(word.rstrip("=") for word in line if word not in _AGAIN[1:])


def _find_obstacles(host: Host, lines: Sequence[PipLine]) -> Sequence[PipLine]:
    """Return the lines that remove what pip cannot replace of the packages that it is told to replace."""
    site = own_site(host)
    changing = [line for line in lines if line[0] in ("install", "uninstall")]
    names = dict.fromkeys(normalize_name(name) for line in changing for name in _names(line))
    copies = [
        copy for name in names for copy in host.interpreter.distributions(name) if site_of(copy) == site
    ]
    return [enter_root(host, line) for line in list_removals(host, copies)]


def _list_fetched(host: Host, line: PipLine) -> list[re.Match[str]]:
    """Return the local versions of a line that pip must fetch. It fetches none that is installed in this very
    build, unless it reinstalls it or installs another member of torch's family."""
    exact = [(word, *word.partition("==")) for word in line]
    already_installed = {
        word for word, name, equal, version in exact if equal and host.interpreter.version_of(name) == version
    }
    rest = tuple(word for word in line if word not in already_installed)
    is_all_fetched = "--force-reinstall" in line or any(name in _TORCH_FAMILY for name in _names(rest))
    # The words of a line that name a local version, such as torch==2.9.0+cpu; paths of wheels are none.
    return [
        match
        for match in (match for word in line for match in (_LOCAL.match(word),) if match)
        if is_all_fetched or match.string not in already_installed
    ]


def _index_of(local: re.Match[str]) -> Optional[str]:
    """Return the index that has this build; None if none is known."""
    build = _TORCH_BUILD.fullmatch(local[2])
    return f"{_TORCH_INDEX}{build[1]}" if build and local[1].lower() in _TORCH_FAMILY else None


def pip_wheels(
    host: Host, title: str, paths: Sequence[str], instead_of: str, before: Sequence[str] = ()
) -> Fix:
    """Return the line that installs local wheels without asking an index; `npudoctor fix` runs it where that
    is safe.

    `instead_of`: the folder of the copies that they replace, "" for none. `before`: the wheels that restore
    these for undo, used only if they are as trustworthy. No variable and no pip.conf can redirect the line.
    """
    words = ("install", "--no-index", "--no-deps", "--upgrade", "--force-reinstall")
    manual_fix = pip_fix(host, title, (*words, *paths))
    if len(manual_fix.steps) != 1 or uses_uv(host) or host.options.root is not None:
        return manual_fix
    # -I also leaves out the user's site: to replace a copy there, pip must see it.
    isolated = () if instead_of and is_in_users_site(host, instead_of) else ("-I",)
    # -I keeps PYTHON* variables, the working directory and the user's site out of pip's own imports;
    # --isolated keeps PIP_* variables and pip.conf out.
    argv = (host.interpreter.path, *isolated, "-m", "pip", "--isolated", *words)
    user = installer(host, paths)
    marks = tuple(_mark(host, path) for path in paths)
    undo_marks = tuple(_mark(host, path) for path in before)
    can_undo = bool(before and isolated) and None not in undo_marks and installer(host, before) is not None
    step = Command(
        (*argv, *paths),
        (*argv, *before) if can_undo else (),
        inputs=tuple(mark for mark in marks if mark is not None),
        undo_inputs=tuple(mark for mark in undo_marks if mark is not None) if can_undo else (),
    )
    if user is None or None in marks or (not isolated and host.identity.is_root):
        title = _("{title}; by hand: some files that this runs belong to neither you nor root", title=title)
        return Fix(title, (Command(step.argv),), risk=Risk.MANUAL, needs_root=False)
    return Fix(title, (step,), risk=Risk.CAUTION, needs_root=bool(isolated) and user != host.identity.euid)


def _mark(host: Host, path: str) -> Optional[FileMark]:
    entry = host.files.stat(path)
    if entry is None:
        return None
    return FileMark(path, entry.dev, entry.ino, entry.size, entry.mtime_ns)


def pip_install(host: Host, title: str, *requirements: str) -> Fix:
    """Return the line that installs the requirements into the examined interpreter."""
    return pip_fix(host, title, ("install", *requirements))


def pip_reinstall(host: Host, title: str, *requirements: str) -> Fix:
    """Return the line that reinstalls these requirements without their dependencies."""
    line: PipLine = (*_AGAIN, *requirements)
    if any(word.endswith("==") for word in requirements) or not _find_obstacles(host, [line]):
        return pip_fix(host, title, line)
    return _fetch_first(host, title, (), requirements)


def _fetch_first(host: Host, title: str, removals: Sequence[PipLine], wanted: Sequence[str]) -> Fix:
    """Return the lines that fetch the wheel before anything is removed: if no index has it, nothing
    changes."""
    first: PipLine = ("download", "--no-deps", "--dest", WHEELS, *wanted)
    last: PipLine = (*_AGAIN, "--no-index", "--find-links", WHEELS, *wanted)
    if uses_uv(host):  # uv has no `pip download`, so a dry run tests whether an index has the wheel
        first, last = (*_AGAIN, "--dry-run", *wanted), (*_AGAIN, *wanted)
    text = _("{title}; stop at the first line that fails", title=title)
    return pip_fix(host, text, first, *removals, last)


def pip_replace(host: Host, title: str, names: Sequence[str], requirement: str, times: int = 1) -> Fix:
    """Return the lines that replace packages by one exact release whose files they share.

    `times`: how often one of them is installed; each removal finds one.

    The wheel is fetched before anything is removed: if no index has it, nothing changes.
    """
    return _fetch_first(host, title, (("uninstall", *names),) * times, (requirement,))


def _names(line: PipLine) -> list[str]:
    """Return the names of the distributions in a line of pip; paths of wheels are left out."""
    words = [word for before, word in zip(line, line[1:]) if before not in VALUED]
    names = (re.match(r"[A-Za-z0-9][\w.-]*", word) for word in words if not word.endswith(".whl"))
    return [match[0].rstrip(".-") for match in names if match]


def install_accepted(
    host: Host, name: str, title: Optional[str] = None, also: Iterable[tuple[Distribution, SpecifierSet]] = ()
) -> Fix:
    """Return the line that installs a version which all packages accept and keeps the installed frameworks.

    `title`: replaces "install a ... that all installed packages accept". `also`: further users and what they
    require. If two requirements exclude each other, both are named and there is no line.
    """
    name = normalize_name(name)
    needs = [*closure_of(host).of(name), *(_need(user, name, specifier) for user, specifier in also)]
    pair = find_excluding(needs)
    if pair is not None:
        first, second = (f"{need.user.label} ({name}{need.specifier})" for need in pair)
        title = _(
            "{one} and {other} conflict: no {name} satisfies both; uninstall one of them",
            one=first,
            other=second,
            name=name,
        )
        return Fix(title, steps=(), risk=Risk.MANUAL, needs_root=False)
    needs += _find_other_needs(host, name, needs)
    title = title or _("install a {name} that all installed packages accept", name=name)
    fix: Fix = pip_fix(
        host,
        title,
        ("install", *pinned_requirements(host, name), f"{name}{simplify(join_specifiers(needs))}"),
    )
    return fix


def _need(user: Distribution, name: str, specifier: SpecifierSet) -> Requirement:
    return Requirement(user, name, specifier, None, (user.name,), False)


def _find_other_needs(host: Host, name: str, needs: list[Requirement]) -> list[Requirement]:
    """Return the requirements of the other installed packages, without those that contradict the
    frameworks'."""
    layout, joined, more = host.interpreter.layout(), join_specifiers(needs), []
    users = {need.user.folder for need in needs}
    for user in host.interpreter.all_installed():
        if user.folder in users:
            continue
        try:
            # One package with unreadable metadata must not prevent the fix for another one.
            specifier = read_requirement(user, name, layout)
        except CannotTell:
            continue  # package-requirements reports it; here it cannot be considered
        if specifier and not is_empty(joined & specifier):
            more.append(_need(user, name, specifier))
            joined &= specifier
    return more


def pinned_requirements(host: Host, *changed: str) -> tuple[str, ...]:
    """Return the arguments that keep pip from changing what works: the installed frameworks, pinned, and
    bounds that only our table knows. `--no-deps` if pip could not satisfy all of them."""
    closure = closure_of(host)
    changed_names = set(map(normalize_name, changed))
    pin_by_name = {normalize_name(root.name): f"{root.name}=={root.version}" for root in closure.roots}
    remaining_needs: dict[str, list[Requirement]] = {}
    for need in closure.needs:
        if need.name not in changed_names and normalize_name(need.user.name) not in changed_names:
            remaining_needs.setdefault(need.name, []).append(need)
    is_unmet = any(not need.is_met for name in pin_by_name for need in remaining_needs.get(name, ()))
    if is_unmet or is_triton_overwritten(host) or any(map(find_excluding, remaining_needs.values())):
        return ("--no-deps",)
    # Bounds of our table that are in no metadata, so pip does not know them.
    table_needs = {
        name: needs
        for name, needs in remaining_needs.items()
        if name not in pin_by_name and any(need.reason and need.specifier for need in needs)
    }
    bounds = (f"{name}{simplify(join_specifiers(needs))}" for name, needs in sorted(table_needs.items()))
    return (*(word for name, word in pin_by_name.items() if name not in changed_names), *bounds)


def install_one_of(host: Host, first: Distribution, second: Distribution) -> Fix:
    """Return the lines that remove two versions of one distribution and reinstall the one that suits all
    frameworks."""
    needs = closure_of(host).of(first.name)
    suitable = [copy for copy in (first, second) if all(need.is_met_by(copy) for need in needs)]
    chosen = max(suitable or (first, second), key=lambda copy: version_numbers(copy.version))
    title = _("remove both, then install {name} again", name=chosen.label)
    fix: Fix = pip_replace(host, title, (normalize_name(first.name),), chosen.requirement, times=2)
    return fix


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a sort key for versions, valid or not by PEP 440: (2, 7) for 2.7.rc1."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def is_triton_overwritten(host: Host) -> bool:
    """Whether the triton that torch requires on x86-64 would put its files over those of triton-ascend."""
    machine = host.interpreter.layout().machine
    # torch's metadata requires triton only where platform_machine is x86_64.
    return machine in ("x86_64", None) and host.interpreter.version_of(TRITON_ASCEND) is not None


def torch_install(host: Host, title: str, *requirements: str) -> Fix:
    """Return the line that installs torch or packages that require it. Without dependencies if torch's triton
    would overwrite triton-ascend."""
    if is_triton_overwritten(host):
        title, requirements = (
            _("{title}, without dependencies: its triton would overwrite triton-ascend", title=title),
            ("--no-deps", *requirements),
        )
    fix: Fix = pip_install(host, title, *requirements)
    return fix


def add_triton_source(host: Host, title: str, version: str) -> str:
    """Return the title for installing triton-ascend; it names the other index if PyPI does not have the
    release."""
    published = [row["triton_ascend"] for row in host.knowledge.rows("vllm_ascend", "pypi")]
    if not version or version in published:
        return title
    return _(
        "{title}; triton-ascend {version} comes from the index that vllm-ascend's installation page names "
        "(--extra-index-url), not from PyPI",
        title=title,
        version=version,
    )
