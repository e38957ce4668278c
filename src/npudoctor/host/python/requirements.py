"""Reads what an installed distribution requires of others from its metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.host.python.interpreter import Distribution, Layout, normalize_name

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

# packaging is imported where it is used: it costs more than the rest of a start.


_EXTRA = "extra =="


@dataclass(frozen=True)
class RequiredDistribution:
    """One thing that a distribution requires: of which name (PEP 503), which versions, with which extras."""

    name: str
    specifier: SpecifierSet
    extras: tuple[str, ...] = ()


def read_requirement(distribution: Distribution, name: str, layout: Layout) -> Optional[SpecifierSet]:
    """The versions of `name` that it accepts, in an interpreter of this layout and without extras.

    None when it does not require it. CannotTell when such a line of its metadata makes no sense, or when
    the metadata is missing or is none.
    """
    _require_headers(distribution)
    from packaging.specifiers import SpecifierSet

    specifier: Optional[SpecifierSet] = None
    for line in distribution.header_values("Requires-Dist"):
        if not normalize_name(line.strip()).startswith(normalize_name(name)):
            continue  # what is not about it need not be understood
        requirement = _parse(line)
        if normalize_name(requirement.name) == normalize_name(name) and _applies(requirement, layout):
            specifier = (specifier or SpecifierSet()) & requirement.specifier
    return specifier


def _require_headers(distribution: Distribution) -> None:
    if not distribution.headers:
        words = {"name": distribution.name, "version": distribution.version, "folder": distribution.folder}
        raise CannotTell(
            _(
                "could not determine what {name} {version} requires: {folder} has no readable metadata",
                **words,
            )
        )


def parse_version(distribution: Distribution) -> Version:
    """Its version, to compare; CannotTell when that is none."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(distribution.version)
    except InvalidVersion as error:
        raise CannotTell(
            _(
                "the version {version} of {name} cannot be parsed",
                version=distribution.version,
                name=distribution.name,
            )
        ) from error


def _parse(line: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(line)
    # RecursionError: a marker of thousands of nested parentheses.
    except (InvalidRequirement, RecursionError) as error:
        raise _make_parse_error(line) from error


def _applies(requirement: Requirement, layout: Layout, extra: str = "") -> bool:
    """Whether its marker holds; asked for the examined interpreter, not for ours."""
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName

    environment = {"extra": extra}
    if layout.version:
        environment["python_full_version"] = layout.version
        environment["python_version"] = ".".join(layout.version.split(".")[:2])
    if layout.machine:
        environment["platform_machine"] = layout.machine
    try:
        return requirement.marker is None or requirement.marker.evaluate(environment)
    except (UndefinedComparison, UndefinedEnvironmentName) as error:
        raise _make_parse_error(str(requirement)) from error


def _make_parse_error(line: str) -> CannotTell:
    return CannotTell(_("the requirement {text} cannot be parsed", text=line))


def read_requirements(distribution: Distribution, layout: Layout) -> dict[str, SpecifierSet]:
    """Everything that it requires in an interpreter of this layout, without extras; by PEP 503 name.

    A line that makes no sense is left out: one wrong line must not hide the others.
    """
    _require_headers(distribution)
    specifiers: dict[str, SpecifierSet] = {}
    for line in distribution.header_values("Requires-Dist"):
        try:
            requirement = _parse(line)
            if not _applies(requirement, layout):
                continue
        except CannotTell:
            continue
        name = normalize_name(requirement.name)
        specifier = specifiers.get(name)
        specifiers[name] = requirement.specifier if specifier is None else specifier & requirement.specifier
    return specifiers


def requirements_of(
    distribution: Distribution, layout: Layout, extras: Sequence[str] = ("",)
) -> list[RequiredDistribution]:
    """What it requires in an interpreter of this layout when these extras are asked for ("" for none).

    In the order of its metadata. A line that makes no sense is left out: it must not hide the others.
    """
    _require_headers(distribution)
    requires = []
    for line in distribution.header_values("Requires-Dist"):
        if tuple(extras) == ("",) and _EXTRA in line and " or " not in line:
            continue  # most lines of a large package, and dear to parse
        try:
            requirement = _parse(line)
            if any(_applies(requirement, layout, extra) for extra in extras):
                its_extras = tuple(sorted(requirement.extras))
                requires.append(
                    RequiredDistribution(normalize_name(requirement.name), requirement.specifier, its_extras)
                )
        except CannotTell:
            continue
    return requires
