"""What conflicting-packages says, and the lines that set it right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor import Action, Finding, Fix, Host, _
from npudoctor.checks.python._pip import pip_fix, pip_replace
from npudoctor.checks.python._requirements import closure_of, suits
from npudoctor.host.python.interpreter import Distribution, normal


def site(found: Distribution) -> str:
    """The folder in which a distribution lies."""
    return found.folder.rsplit("/", 1)[0]


def label(found: Distribution) -> str:
    """How a message names it."""
    return f"{found.name} {found.version}"


def two_flavours(host: Host, first: Distribution, second: Distribution) -> Finding:
    """Two distributions with the same files in one folder."""
    text = _("{first} and {second} share one folder: what was installed last has overwritten the other")
    return Finding(
        "conflicting-packages.two-flavours",
        text.format(first=label(first), second=label(second)),
        evidence=_evidence(first, second),
        action=Action.CONFIG,
        fix=_anew(host, (first.name, second.name), _kept(first, second)),
    )


def mixed_copy(host: Host, first: Distribution, other: Distribution) -> Finding:
    """Two versions of one distribution in one folder."""
    text = _("{name} is there twice in one folder, as {first} and as {other}: an upgrade broke off")
    return Finding(
        "conflicting-packages.mixed-copy",
        text.format(name=first.name, first=first.version, other=other.version),
        evidence=_evidence(first, other),
        action=Action.CONFIG,
        fix=one_of_two(host, first, other),
        echo_of=("package-files.two-versions",),  # which looks at the files too
    )


def one_of_two(host: Host, first: Distribution, other: Distribution) -> Fix:
    """Both go, and the one comes back that suits all frameworks."""
    needs = closure_of(host).of(first.name)
    fitting = [one for one in (first, other) if all(suits(need, one) for need in needs)]
    wanted = max(fitting or (first, other), key=_order)
    title = _("install {name} once more, after both are removed").format(name=label(wanted))
    exact = f"{normal(wanted.name)}=={wanted.version}"
    fix: Fix = pip_replace(host, title, (normal(first.name),), exact, times=2)
    return fix


def two_copies(first: Distribution, other: Distribution) -> Finding:
    """Two versions in two folders."""
    text = _("{name} is there twice: {first} in {folder} wins over {other} in {behind}")
    words = {"first": first.version, "folder": site(first), "other": other.version, "behind": site(other)}
    return Finding("conflicting-packages.two-copies", text.format(name=first.name, **words))


def other_python(host: Host, found: Distribution, path: str, pythons: Sequence[str], version: str) -> Finding:
    """No extension module for this Python."""
    text = _("{name} in {folder} is built for Python {pythons}, and {python} is {version}")
    words = {"folder": site(found), "pythons": ", ".join(pythons), "version": version}
    return Finding(
        "conflicting-packages.other-python",
        text.format(name=label(found), python=host.interpreter.label, **words),
        evidence=(path,),
        action=Action.CONFIG,
        fix=_again(host, found),
        echo_of=("interpreter.other-abi",),
    )


def other_c_library(host: Host, found: Distribution, path: str, own: str) -> Finding:
    """No extension module for a Python with this C library."""
    names = {"gnu": "glibc", "musl": "musl"}
    text = _("{name} in {folder} is built for Python with {built}, and {python} is built with {own}")
    words = {"folder": site(found), "built": names["musl" if own == "gnu" else "gnu"], "own": names[own]}
    return Finding(
        "conflicting-packages.other-c-library",
        text.format(name=label(found), python=host.interpreter.label, **words),
        evidence=(path,),
        action=Action.CONFIG,
        fix=_again(host, found),
    )


def other_machine(
    host: Host, found: Distribution, machines: Mapping[str, Optional[str]], machine: str
) -> Finding:
    """An extension module for another machine."""
    path, built = next((path, built) for path, built in machines.items() if built)
    text = _("{name} in {folder} is built for {built}, and {python} runs on {machine}")
    words = {"folder": site(found), "built": built, "machine": machine}
    return Finding(
        "conflicting-packages.other-machine",
        text.format(name=label(found), python=host.interpreter.label, **words),
        evidence=(f"{path}: ELF, {built}",),
        action=Action.CONFIG,
        fix=_anew(host, (found.name,), None),
    )


def _evidence(*found: Distribution) -> tuple[str, ...]:
    return tuple(f"{label(one)}: {one.folder}" for one in found)


def _order(found: Distribution) -> tuple[int, ...]:
    return tuple(int(part) for part in found.version.split(".") if part.isdecimal())


def _kept(first: Distribution, second: Distribution) -> Distribution:
    """The newer one; of equals the one that has the accelerator in its name."""
    return first if _order(first) > _order(second) else second


def _anew(host: Host, names: Sequence[str], kept: Optional[Distribution]) -> Fix:
    title = _("remove {names}, which cannot run here").format(names=", ".join(names))
    fix: Fix = pip_fix(host, title, ("uninstall", *names))
    if kept is not None:
        title = _("remove both, then install {name} again").format(name=kept.name)
        fix = pip_replace(host, title, names, f"{kept.name}=={kept.version}")
    return fix


def _again(host: Host, found: Distribution) -> Fix:
    title = _("install {name} again").format(name=found.name)
    wanted = f"{found.name}=={found.version}"
    fix: Fix = pip_fix(host, title, ("install", "--force-reinstall", "--no-deps", wanted))
    return fix
