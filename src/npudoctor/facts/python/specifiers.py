"""Sets of versions that are required: joined, compared with each other and with builds of one release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from npudoctor.host.python.interpreter import Distribution
from npudoctor.knowledge.versions import public_version

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

# Of several lower bounds only the highest matters, of upper bounds the lowest.
_LOWS = (">=", ">")
_BOUNDS = (*_LOWS, "<", "<=")


def accepts(requirement: SpecifierSet, version: str) -> bool:
    """Return whether a version meets a requirement; builds of one release (2.7.1+cpu, 2.7.1+cu126) are alike.

    InvalidVersion where `version` is none.
    """
    from packaging.version import Version

    return bool(drop_build(requirement).contains(Version(Version(version).public), prereleases=True))


def drop_build(requirement: SpecifierSet) -> SpecifierSet:
    """A requirement without the builds that it names: ==2.7.1 of ==2.7.1+cpu."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(",".join(str(bound).partition("+")[0] for bound in requirement))


def add_build(requirement: SpecifierSet, by: Distribution) -> SpecifierSet:
    """A requirement with the build that it names, ==2.9.0+cpu; where it names only a release, with the build
    of whoever requires it.

    torchvision 0.24.0+cpu, which says ==2.9.0, loads with torch 2.9.0+cpu alone.
    """
    from packaging.specifiers import SpecifierSet

    local = by.version.partition("+")[2]
    release = pinned_version(requirement)
    if not local or release is None or any("+" in str(bound) for bound in requirement):
        return requirement
    return SpecifierSet(f"=={release}+{local}")


def pinned_version(requirement: SpecifierSet) -> Optional[Version]:
    """The single release that a requirement names, by == or ===; None where it names none, or a range."""
    for bound in requirement:
        if bound.operator in ("==", "===") and not bound.version.endswith(".*"):
            return public_version(bound.version)
    return None


def simplify(specifier: SpecifierSet) -> SpecifierSet:
    """The same versions in fewer words: >=1.25,<2 of >=1.20,>=1.25,<2,<2.5."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        numbers = {bound: Version(bound.version) for bound in specifier if bound.operator in _BOUNDS}
    except InvalidVersion:
        return specifier
    # Of two bounds with one number the one that leaves it out is tighter: > after >=, < before <=.
    bounds = sorted(numbers, key=lambda bound: (numbers[bound], bound.operator in (">", "<=")))
    lows = [bound for bound in bounds if bound.operator in _LOWS]
    highs = [bound for bound in bounds if bound.operator not in _LOWS]
    needed = [*lows[-1:], *highs[:1], *(bound for bound in specifier if bound not in numbers)]
    # Beside a pin no bound says anything more.
    pins = [bound for bound in needed if bound.operator == "==" and "*" not in bound.version]
    return SpecifierSet(",".join(map(str, pins or needed)))


def is_empty(specifier: SpecifierSet) -> bool:
    """Return whether no version can be in it: each number that it names is tried, and its neighbours."""
    # Arbitrary equality compares texts; no neighbour can be computed.
    if any(bound.operator == "===" for bound in specifier):
        return False
    numbers = [bound.version.removesuffix(".*") for bound in specifier] or ["1"]
    tried = [
        version for number in numbers for version in (number, f"{number}.0.0.1", _release_before(number))
    ]
    return not any(specifier.contains(version, prereleases=False) for version in tried)


def _release_before(text: str) -> str:
    """A release right before this one."""
    from packaging.version import Version

    numbers = list(Version(text).release)
    while numbers and not numbers[-1]:
        numbers.pop()
    if not numbers:
        return "0"
    return ".".join(map(str, (*numbers[:-1], numbers[-1] - 1, 99999)))
