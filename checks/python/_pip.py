"""The remedies that install or remove packages: one place for all checks, of whatever group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor import Command, Export, FileMark, Fix, Host, Risk, _
from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.facts.python.closure import Requirement, find_excluding, join_specifiers
from npudoctor.facts.python.frameworks import closure_of
from npudoctor.facts.python.pip import (
    entry_of,
    installer,
    installs_nothing,
    is_in_users_site,
    needs_root,
    pip_argv,
    pip_first,
    uses_uv,
)
from npudoctor.facts.python.specifiers import is_empty, simplify
from npudoctor.host.python.interpreter import Distribution, normal
from npudoctor.host.python.requirements import read_requirement

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

Line = tuple[str, ...]
TRITON_ASCEND = "triton-ascend"
WHEELS = "npudoctor-wheels"  # below the working directory of who types the lines
_AGAIN = ("install", "--force-reinstall", "--no-deps")
# Options of pip that have a value.
_VALUED = ("--dest", "--find-links", "--extra-index-url")
# Where builds of PyTorch with a local version (2.9.0+cpu) are to be had: PyPI takes none.
_TORCH_INDEX = "https://download.pytorch.org/whl/"
_TORCH_FAMILY = ("torch", "torchvision", "torchaudio")
_TORCH_BUILD = pattern(r"(cpu|cu\d+|rocm[\d.]+|xpu)(\.cxx11\.abi)?")
_LOCAL = pattern(r"([A-Za-z0-9][\w.-]*)[^+/\s]*===?[^+,/\s]+\+([\w.]+)")


def pip_fix(host: Host, title: str, *lines: Line) -> Fix:
    """These lines of pip ("install", "numpy<2"), as they work for the examined interpreter; shown only.

    Where a package that they are about is seen through PYTHONPATH, the entry is to be taken out instead.
    Where nothing can be installed, the title says so and there is no line.
    """
    uncovering = _uncover_packages(host, lines)
    if uncovering is not None:
        return uncovering
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
    nowhere = [match[0] for line in lines for match in _list_fetched(host, line) if _index_of(match) is None]
    if nowhere:
        title = _(
            "{title}; no public index has {builds}: use the source that it was installed from",
            title=title,
            builds=", ".join(dict.fromkeys(nowhere)),
        )
    steps = [*pip_first(host)]
    for line in lines:
        indexes: list[str] = []
        # The indexes that its local versions need; a line that asks no index needs none.
        if line[0] in ("install", "download") and "--no-index" not in line:
            indexes = [index for index in map(_index_of, _list_fetched(host, line)) if index]
        extra = [word for index in dict.fromkeys(indexes) for word in ("--extra-index-url", index)]
        steps.append(pip_argv(host, *line, *extra))
    return Fix(title, steps=tuple(map(Command, steps)), risk=Risk.MANUAL, needs_root=needs_root(host))


def _list_fetched(host: Host, line: Line) -> list[re.Match[str]]:
    """Those that an index must have: pip leaves alone what is there in this very build, unless it is told
    to install it once more, or something that goes with it."""
    exact = [(word, *word.partition("==")) for word in line]
    here = {
        word for word, name, equal, version in exact if equal and host.interpreter.version_of(name) == version
    }
    rest = tuple(word for word in line if word not in here)
    more = "--force-reinstall" in line or any(name in _TORCH_FAMILY for name in _names(rest))
    # The words of a line that name a local version, such as torch==2.9.0+cpu; paths of wheels are none.
    return [
        match
        for match in (match for word in line for match in (_LOCAL.match(word),) if match)
        if more or match.string not in here
    ]


def _index_of(local: re.Match[str]) -> Optional[str]:
    """The index that has this build; None where we know of none."""
    build = _TORCH_BUILD.fullmatch(local[2])
    return f"{_TORCH_INDEX}{build[1]}" if build and local[1].lower() in _TORCH_FAMILY else None


def pip_wheels(
    host: Host, title: str, paths: Sequence[str], instead_of: str, before: Sequence[str] = ()
) -> Fix:
    """The line that installs wheels which lie here, without asking any index; run by `npudoctor fix` where
    that is safe.

    `instead_of` is the folder of the copies that they replace, "" for none; `before` are the wheels that put
    these back, where they are known, and are as trustworthy as those put in. No
    variable and no user's settings of pip lead it elsewhere.
    """
    words = ("install", "--no-index", "--no-deps", "--upgrade", "--force-reinstall")
    by_hand = pip_fix(host, title, (*words, *paths))
    if len(by_hand.steps) != 1 or uses_uv(host) or host.options.root is not None:
        return by_hand
    isolated = () if instead_of and is_in_users_site(host, instead_of) else ("-I",)
    argv = (host.interpreter.path, *isolated, "-m", "pip", "--isolated", *words)
    user = installer(host, paths)
    marks = tuple(_mark(host, path) for path in paths)
    old = tuple(_mark(host, path) for path in before)
    back = bool(before and isolated) and None not in old and installer(host, before) is not None
    step = Command(
        (*argv, *paths),
        (*argv, *before) if back else (),
        inputs=tuple(mark for mark in marks if mark is not None),
        undo_inputs=tuple(mark for mark in old if mark is not None) if back else (),
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
    """The line that installs them into the examined interpreter."""
    return pip_fix(host, title, ("install", *requirements))


def pip_reinstall(host: Host, title: str, requirement: str) -> Fix:
    """The line that installs it over what is there, and nothing that it requires."""
    return pip_fix(host, title, (*_AGAIN, requirement))


def pip_replace(host: Host, title: str, names: Sequence[str], requirement: str, times: int = 1) -> Fix:
    """The lines that put one exact release in place of packages whose files it shares.

    `times`: how often one of them is installed; each removal finds one.

    Its wheel is fetched before anything is removed: where no index has it, all stays as it is.
    """
    first: Line = ("download", "--no-deps", "--dest", WHEELS, requirement)
    last: Line = (*_AGAIN, "--no-index", "--find-links", WHEELS, requirement)
    if uses_uv(host):  # it fetches nothing into a folder
        first, last = (*_AGAIN, "--dry-run", requirement), (*_AGAIN, requirement)
    text = _("{title}; run each line only after the previous one has succeeded", title=title)
    return pip_fix(host, text, first, *(("uninstall", *names),) * times, last)


def _uncover_packages(host: Host, lines: Sequence[Line]) -> Optional[Fix]:
    for name in (name for line in lines for name in _names(line)):
        for copy in host.interpreter.distributions(name)[:1]:
            entry = entry_of(host, copy)
            if entry is not None:
                return _without(
                    host,
                    entry,
                    _(
                        "remove {entry} from PYTHONPATH: its {name} hides the one that pip installs",
                        entry=entry,
                        name=copy.label,
                    ),
                )
    return None


def out_of_pythonpath(host: Host, folder: str) -> Optional[Fix]:
    """PYTHONPATH without the entries that are this folder; None where none is."""
    real = host.files.real(folder)
    entries = host.variables.get("PYTHONPATH", "").split(":")
    entry = next((path for path in entries if path.startswith("/") and host.files.real(path) == real), None)
    if entry is None:
        return None
    return _without(host, entry, _("remove {entry} from PYTHONPATH", entry=entry))


def _without(host: Host, entry: str, title: str) -> Fix:
    before = host.variables["PYTHONPATH"]
    rest = ":".join(other for other in before.split(":") if other != entry)
    step = Export("PYTHONPATH", rest) if rest else Command(("unset", "PYTHONPATH"))
    undo = Export("PYTHONPATH", before).lines()
    return Fix(title, steps=(step,), undo=undo, risk=Risk.MANUAL, needs_root=False)


def _names(line: Line) -> list[str]:
    """The distributions that a line of pip is about; paths of wheels are none."""
    words = [word for before, word in zip(line, line[1:]) if before not in _VALUED]
    names = (re.match(r"[A-Za-z0-9][\w.-]*", word) for word in words if not word.endswith(".whl"))
    return [match[0].rstrip(".-") for match in names if match]


def install_accepted(
    host: Host, name: str, title: Optional[str] = None, also: Iterable[tuple[Distribution, SpecifierSet]] = ()
) -> Fix:
    """The line that installs a version which all accept, and holds pip to the frameworks that are there.

    `title`: what it says instead of "install a ... that all of them accept". `also`: who wants what of it
    besides what the closure says. Where two exclude each other they are named, and there is no line.
    """
    name = normal(name)
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
    needs += _needs_of_others(host, name, needs)
    title = title or _("install a {name} that all installed packages accept", name=name)
    fix: Fix = pip_fix(
        host, title, ("install", *pins(host, name), f"{name}{simplify(join_specifiers(needs))}")
    )
    return fix


def _need(user: Distribution, name: str, specifier: SpecifierSet) -> Requirement:
    return Requirement(user, name, specifier, None, (user.name,), False)


def _needs_of_others(host: Host, name: str, needs: list[Requirement]) -> list[Requirement]:
    """What the rest of the environment wants of it, as far as that goes with what the frameworks want."""
    layout, both, more = host.interpreter.layout(), join_specifiers(needs), []
    users = {need.user.folder for need in needs}
    for user in host.interpreter.all_installed():
        if user.folder in users:
            continue
        try:
            specifier = read_requirement(user, name, layout)
        except CannotTell:
            continue  # its own check says so; here it only cannot be heeded
        if specifier and not is_empty(both & specifier):
            more.append(_need(user, name, specifier))
            both &= specifier
    return more


def pins(host: Host, *changed: str) -> tuple[str, ...]:
    """What stands in the line so that pip leaves alone what works: the frameworks as they are, and what is
    needed and no metadata says. `--no-deps` where pip would find no way to keep to all of it.
    """
    whole = closure_of(host)
    gone = set(map(normal, changed))
    kept = {normal(root.name): f"{root.name}=={root.version}" for root in whole.roots}
    staying: dict[str, list[Requirement]] = {}
    for need in whole.needs:
        if need.name not in gone and normal(need.user.name) not in gone:
            staying.setdefault(need.name, []).append(need)
    apart = any(not need.is_met for name in kept for need in staying.get(name, ()))
    if apart or overwritten_by_torch(host) or any(map(find_excluding, staying.values())):
        return ("--no-deps",)
    # Those whose table names versions of which pip does not know.
    unsaid = {
        name: needs
        for name, needs in staying.items()
        if name not in kept and any(need.reason and need.specifier for need in needs)
    }
    bounds = (f"{name}{simplify(join_specifiers(needs))}" for name, needs in sorted(unsaid.items()))
    return (*(word for name, word in kept.items() if name not in gone), *bounds)


def install_one_of(host: Host, first: Distribution, second: Distribution) -> Fix:
    """Of two versions of one distribution both go, and the one comes back that suits all frameworks."""
    needs = closure_of(host).of(first.name)
    suiting = [copy for copy in (first, second) if all(need.is_met_by(copy) for need in needs)]
    kept = max(suiting or (first, second), key=lambda copy: numbers_of(copy.version))
    title = _("remove both, then install {name} again", name=kept.label)
    fix: Fix = pip_replace(host, title, (normal(first.name),), kept.requirement, times=2)
    return fix


def numbers_of(version: str) -> tuple[int, ...]:
    """A key by which versions sort, whether or not PEP 440 knows them: (2, 7) of 2.7.rc1."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def overwritten_by_torch(host: Host) -> bool:
    """Whether the triton that torch requires on x86-64 would put its files over those of triton-ascend."""
    machine = host.interpreter.layout().machine
    return machine in ("x86_64", None) and host.interpreter.version_of(TRITON_ASCEND) is not None


def torch_install(host: Host, title: str, *requirements: str) -> Fix:
    """The line that installs torch, or what pulls it."""
    if overwritten_by_torch(host):
        title, requirements = (
            _("{title}, without dependencies: its triton would overwrite triton-ascend", title=title),
            ("--no-deps", *requirements),
        )
    fix: Fix = pip_install(host, title, *requirements)
    return fix


def with_source_of_triton(host: Host, title: str, version: str) -> str:
    """The title of lines that install a release of triton-ascend, with its index where PyPI lacks it."""
    known = [row["triton_ascend"] for row in host.knowledge.rows("vllm_ascend", "pypi")]
    if not version or version in known:
        return title
    return _(
        "{title}; triton-ascend {version} comes from the index that vllm-ascend's installation page names "
        "(--extra-index-url), not from PyPI",
        title=title,
        version=version,
    )
