"""The remedies that install a release which goes with all that is installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from npudoctor import Fix, Host, Risk, _
from npudoctor.checks.python._pip import pip_fix, pip_install, pip_replace
from npudoctor.core.errors import CannotTell
from npudoctor.facts.python.closure import Need, excluding, joined
from npudoctor.facts.python.frameworks import closure_of
from npudoctor.facts.python.specifiers import is_empty, tidy
from npudoctor.host.python.interpreter import Distribution, normal
from npudoctor.host.python.requirements import required

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

TRITON_ASCEND = "triton-ascend"


def install_accepted(
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
        first, second = (f"{need.user.label} ({name}{need.specifier})" for need in pair)
        title = _(
            "{one} and {other} exclude each other: no {name} suits both; uninstall one of them",
            one=first,
            other=second,
            name=name,
        )
        return Fix(title, steps=(), risk=Risk.MANUAL, needs_root=False)
    needs += _needs_of_others(host, name, needs)
    title = title or _("install a {name} that all of them accept", name=name)
    fix: Fix = pip_fix(host, title, ("install", *pins(host, name), f"{name}{tidy(joined(needs))}"))
    return fix


def _need(user: Distribution, name: str, wanted: SpecifierSet) -> Need:
    return Need(user, name, wanted, None, (user.name,), False)


def _needs_of_others(host: Host, name: str, needs: list[Need]) -> list[Need]:
    """What the rest of the environment wants of it, as far as that goes with what the frameworks want."""
    layout, both, more = host.interpreter.layout(), joined(needs), []
    users = {need.user.folder for need in needs}
    for user in host.interpreter.all_installed():
        if user.folder in users:
            continue
        try:
            wanted = required(user, name, layout)
        except CannotTell:
            continue  # its own check says so; here it only cannot be heeded
        if wanted and not is_empty(both & wanted):
            more.append(_need(user, name, wanted))
            both &= wanted
    return more


def pins(host: Host, *changed: str) -> tuple[str, ...]:
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
    # Those whose table names versions of which pip does not know.
    unsaid = {
        name: needs
        for name, needs in staying.items()
        if name not in kept and any(need.reason and need.specifier for need in needs)
    }
    bounds = (f"{name}{tidy(joined(needs))}" for name, needs in sorted(unsaid.items()))
    return (*(word for name, word in kept.items() if name not in gone), *bounds)


def install_one_of(host: Host, first: Distribution, second: Distribution) -> Fix:
    """Of two versions of one distribution both go, and the one comes back that suits all frameworks."""
    needs = closure_of(host).of(first.name)
    suiting = [copy for copy in (first, second) if all(need.met_by(copy) for need in needs)]
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
