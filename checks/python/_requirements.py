"""What all installed frameworks require together, and the line of pip that keeps to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor import Fix, Host, Risk, _
from npudoctor.checks.python._pip import pip_fix
from npudoctor.checks.python._triton import overwritten_by_torch
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import replace
from npudoctor.facts.python.closure import Closure, Overruled, UnstatedNeed, closure
from npudoctor.facts.python.closure import Need as Need
from npudoctor.host.python.interpreter import Distribution, Layout, normal
from npudoctor.host.python.requirements import all_required, required
from npudoctor.knowledge import requirements as rows
from npudoctor.knowledge.tables import Row

if TYPE_CHECKING:
    from packaging.specifiers import Specifier, SpecifierSet
    from packaging.version import Version

FRAMEWORKS = (
    *("mindspore", "mindspore-ascend", "mindspore-gpu"),
    *("torch", "torch-npu", "torchvision", "torchaudio", "vllm", "vllm-ascend", "triton-ascend"),
    *("paddlepaddle", "paddlepaddle-gpu", "paddle-custom-npu"),
    *("tensorflow", "tensorflow-cpu"),
)


def closure_of(host: Host) -> Closure:
    """What the installed frameworks require; walked once for all checks."""
    return host.once("requirements", lambda: _walk(host))


def _walk(host: Host) -> Closure:
    told = (host.interpreter.installed(name) for name in FRAMEWORKS)
    roots = [found for found in told if found is not None]
    if not roots:
        return Closure((), ())  # nothing to look up in the tables
    knowledge = host.knowledge
    return closure(
        host.interpreter,
        roots,
        lenient=lambda user, name: _spares(host, user, name),
        unsaid=lambda user: [
            UnstatedNeed(one.name, one.specifier, _breaks(row), bool(row.values.get("imports")))
            for one, row in rows.unstated_requirements(knowledge, normal(user.name), user.version)
        ],
        stand_ins=rows.stand_ins(knowledge),
        overruled=_overruled(host),
    )


def _spares(host: Host, user: Distribution, name: str) -> bool:
    """Whether its import is known to work without what it requires, or with the version that is there."""
    known = normal(user.name), user.version
    if rows.lenient(host.knowledge, *known, name) is not None:
        return True
    if normal(user.name) not in FRAMEWORKS:
        return False
    found = host.interpreter.installed(name)
    return found is not None and rows.seen_to_work(host.knowledge, *known, name, found.version)


def _breaks(row: Row) -> str:
    return _("{what} fails: {error}").format(what=row["breaks"], error=row["error"])


def _overruled(host: Host) -> Overruled:
    """Whether a plug-in that is installed names the version, and not what it extends: vllm-ascend needs the
    torch that it pins, and vLLM, which pins another one, works with that."""
    layout = host.interpreter.layout()
    pinned: dict[str, set[str]] = {}
    for plugin, user in rows.overruling(host.knowledge):
        found = host.interpreter.installed(plugin)
        pinned.setdefault(user, set()).update(all_required(found, layout) if found is not None else ())
    return lambda user, name: name in pinned.get(normal(user.name), ())


def optional(need: Need) -> bool:
    """Whether the import works although this need is not met, as far as is known.

    What is missing is needed unless a row knows better. A version above what is asked for often works; one
    below seldom does.
    """
    if need.lenient:
        return True
    return need.found is not None and not need.reason and not need.too_old


def order(needs: Sequence[Need]) -> tuple[bool, int]:
    """What breaks an import comes first, then what is nearest to a framework."""
    return all(map(optional, needs)), min(len(need.way) for need in needs)


def install(
    host: Host, name: str, title: Optional[str] = None, also: Iterable[tuple[Distribution, SpecifierSet]] = ()
) -> Fix:
    """The line that installs a version which all accept, and holds pip to the frameworks that are there.

    `title`: what it says instead of "install a ... that all of them accept". `also`: who wants what of it
    besides what the closure says. Where two exclude each other they are named, and there is no line.
    """
    name = normal(name)
    needs = [*closure_of(host).of(name), *(_need(user, name, wanted) for user, wanted in also)]
    pair = excluding(needs)
    if pair is not None:
        text = _("{one} and {other} exclude each other: no {name} suits both, and one of them must go")
        one, other = (f"{need.user.name} {need.user.version} ({name}{need.specifier})" for need in pair)
        title = text.format(one=one, other=other, name=name)
        return Fix(title, steps=(), risk=Risk.MANUAL, needs_root=False)
    needs += _of_others(host, name, needs)
    title = title or _("install a {name} that all of them accept").format(name=name)
    fix: Fix = pip_fix(host, title, ("install", *held(host, name), f"{name}{tidy(joined(needs))}"))
    return fix


def _need(user: Distribution, name: str, wanted: SpecifierSet) -> Need:
    return Need(user, name, wanted, None, (user.name,), False)


def _of_others(host: Host, name: str, needs: Sequence[Need]) -> list[Need]:
    """What the rest of the environment wants of it, as far as that goes with what the frameworks want."""
    layout, both, more = host.interpreter.layout(), joined(needs), []
    users = {need.user.folder for need in needs}
    for user in host.interpreter.all_installed():
        wanted = _wanted(user, name, layout) if user.folder not in users else None
        if wanted and not is_empty(both & wanted):
            more.append(_need(user, name, wanted))
            both &= wanted
    return more


def _wanted(user: Distribution, name: str, layout: Layout) -> Optional[SpecifierSet]:
    try:
        return required(user, name, layout)
    except CannotTell:  # its own check says so; here it only cannot be heeded
        return None


def held(host: Host, *changed: str) -> tuple[str, ...]:
    """What stands in the line so that pip leaves alone what works: the frameworks as they are, and what is
    needed and no metadata says. `--no-deps` where pip would find no way to keep to all of it.
    """
    whole = closure_of(host)
    gone = set(map(normal, changed))
    kept = {normal(root.name): f"{root.name}=={root.version}" for root in whole.roots}
    staying: dict[str, list[Need]] = {}
    for need in whole.needs:
        if need.name not in gone and normal(need.user.name) not in gone:
            staying.setdefault(need.name, []).append(need)
    apart = any(not need.met for name in kept for need in staying.get(name, ()))
    if apart or overwritten_by_torch(host) or any(map(excluding, staying.values())):
        return ("--no-deps",)
    unsaid = {name: needs for name, needs in staying.items() if name not in kept and any(map(_firm, needs))}
    bounds = (f"{name}{tidy(joined(needs))}" for name, needs in sorted(unsaid.items()))
    return (*(word for name, word in kept.items() if name not in gone), *bounds)


def _firm(need: Need) -> bool:
    """Whether it names versions of which pip does not know."""
    return bool(need.reason and need.specifier)


def tidy(specifier: SpecifierSet) -> SpecifierSet:
    """The same versions in fewer words: >=1.25,<2 of >=1.20,>=1.25,<2,<2.5."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        numbers = {one: Version(one.version) for one in specifier if one.operator in _BOUNDS}
    except InvalidVersion:
        return specifier
    lows = sorted((one for one in numbers if one.operator in _LOWS), key=lambda one: _key(numbers[one], one))
    highs = sorted((one for one in numbers if one not in lows), key=lambda one: _key(numbers[one], one))
    kept = [*lows[-1:], *highs[:1], *(one for one in specifier if one not in numbers)]
    exact = [one for one in kept if one.operator == "==" and "*" not in one.version]
    return SpecifierSet(",".join(map(str, exact or kept)))


_LOWS = (">=", ">")
_BOUNDS = (*_LOWS, "<", "<=")


def _key(number: Version, bound: Specifier) -> tuple[Version, bool]:
    """Of two bounds with one number the one that leaves it out is tighter: > after >=, < before <=."""
    return number, bound.operator in (">", "<=")


def joined(needs: Sequence[Need]) -> SpecifierSet:
    """What suits everybody."""
    from packaging.specifiers import SpecifierSet

    both = SpecifierSet()
    for need in needs:
        both &= need.specifier
    return both


def excluding(needs: Sequence[Need]) -> Optional[tuple[Need, Need]]:
    """Two that no version suits; of three that exclude each other only together, the first and the last."""
    for at, one in enumerate(needs):
        for other in needs[at + 1 :]:
            if is_empty(one.specifier & other.specifier):
                return one, other
    return (needs[0], needs[-1]) if len(needs) > 1 and is_empty(joined(needs)) else None


def is_empty(specifier: SpecifierSet) -> bool:
    """Whether no version can be in it: tried at each number that it names, and right beside it."""
    if any(one.operator == "===" for one in specifier):
        return False
    named = [one.version.removesuffix(".*") for one in specifier] or ["1"]
    tried = [tried for one in named for tried in (one, f"{one}.0.0.1", _before(one))]
    return not any(specifier.contains(one, prereleases=False) for one in tried)


def _before(text: str) -> str:
    """A release right before this one."""
    from packaging.version import Version

    numbers = list(Version(text).release)
    while numbers and not numbers[-1]:
        numbers.pop()
    if not numbers:
        return "0"
    return ".".join(map(str, (*numbers[:-1], numbers[-1] - 1, 99999)))


def suits(need: Need, found: Distribution) -> bool:
    """Whether this copy would do."""
    return bool(replace(need, found=found).met)


def named(found: Distribution) -> str:
    """How a message names it."""
    return f"{found.name} {found.version}"
