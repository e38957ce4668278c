"""Everything that installed distributions require, one through the other, and which of it is not met."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.facts.python.specifiers import accepts, is_empty
from npudoctor.host.python.interpreter import Distribution, Interpreter, normalize_name
from npudoctor.host.python.requirements import RequiredDistribution, requirements_of

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# From whom to whom a requirement leads, by normal name: whether it counts as an optional one.
Lenient = Callable[[Distribution, str], bool]
# Who requires it, and the copy that is there: what is known to fail with these two; None: nothing.
Failing = Callable[[Distribution, Distribution], Optional["KnownFailure"]]
# The same: whether the version that it names does not count.
Overruled = Callable[[Distribution, str], bool]


@dataclass(frozen=True)
class UnstatedNeed:
    """What a distribution needs besides what its metadata says. `reason`: what breaks without it. `lenient`:
    something other than its import.
    """

    name: str
    specifier: SpecifierSet
    reason: str
    lenient: bool = False


@dataclass(frozen=True)
class KnownFailure:
    """What is known to fail with a version. `lenient`: something other than the import."""

    reason: str
    lenient: bool = False


@dataclass(frozen=True)
class Requirement:
    """One requirement: who has it (`user`), of what (`name`), and what is `installed` (None: nothing). `way`:
    from a framework to the user.

    `lenient`: the import works without some step of the way. `reason`: what is known to break, else "".
    """

    user: Distribution
    name: str
    specifier: SpecifierSet
    installed: Optional[Distribution]
    way: tuple[str, ...]
    lenient: bool
    reason: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the installed version is one that is required."""
        return self.installed is not None and self.is_met_by(self.installed)

    def is_met_by(self, copy: Distribution) -> bool:
        """Return whether this copy meets the requirement; a version that cannot be parsed is not judged.

        Builds of one release are alike: torch-npu says torch==2.9.0+cpu, and works with 2.9.0.
        """
        from packaging.version import InvalidVersion

        try:
            return accepts(self.specifier, copy.version)
        # Old distributions have versions that PEP 440 does not know, such as 2004d.
        except InvalidVersion:
            return True


@dataclass(frozen=True)
class Closure:
    """All requirements of some distributions, in the order in which they are reached, and what could not be
    read (`unclear`).
    """

    roots: tuple[Distribution, ...]
    needs: tuple[Requirement, ...]
    unclear: tuple[CannotTell, ...] = ()

    @property
    def names(self) -> set[str]:
        """All that is required, by PEP 503 name."""
        return {need.name for need in self.needs}

    def of(self, name: str) -> list[Requirement]:
        """The requirements of one distribution."""
        return [need for need in self.needs if need.name == normalize_name(name)]


def close_requirements(
    interpreter: Interpreter,
    roots: Sequence[Distribution],
    *,
    lenient: Lenient,
    unsaid: Callable[[Distribution], Iterable[UnstatedNeed]],
    stand_ins: Mapping[str, Mapping[str, bool]],
    overruled: Overruled = lambda user, name: False,
    failing: Failing = lambda user, copy: None,
) -> Closure:
    """What the roots require, what that requires, and so on, as far as it is installed.

    `unsaid`: what a distribution needs besides its metadata. `stand_ins`: which distributions bring the same
    modules as another one, and whether under the same version numbers. `overruled`: whether another
    distribution decides which version is right. `failing`: what is known to fail with a version other than
    the required one.
    """
    walk = _RequirementWalk(interpreter, lenient, unsaid, stand_ins, overruled, failing)
    for root in roots:
        walk.enter(root, (), ("",), False)
    walk.drain()
    return Closure(tuple(roots), tuple(walk.needs), tuple(walk.unclear))


class _RequirementWalk:
    """Walks breadth first, so that the shortest way to each requirement is the one that is reported."""

    def __init__(
        self,
        interpreter: Interpreter,
        lenient: Lenient,
        unsaid: Callable[[Distribution], Iterable[UnstatedNeed]],
        stand_ins: Mapping[str, Mapping[str, bool]],
        overruled: Overruled,
        failing: Failing,
    ) -> None:
        self._interpreter, self._stand_ins = interpreter, stand_ins
        self._lenient, self._unsaid, self._overruled = lenient, unsaid, overruled
        self._failing = failing
        self._layout = interpreter.layout()
        self._todo: deque[tuple[Distribution, tuple[str, ...], Sequence[str], bool]] = deque()
        self._entered: set[tuple[str, str, bool]] = set()
        self.needs: list[Requirement] = []
        self.unclear: list[CannotTell] = []

    def enter(self, user: Distribution, way: tuple[str, ...], extras: Sequence[str], lenient: bool) -> None:
        """Add a distribution to those whose requirements are read, with these extras."""
        new = []
        for extra in extras:
            # Once for each; what was reached by an optional step is asked again by a firm one.
            entered = {(user.folder, extra, False), (user.folder, extra, lenient)} & self._entered
            self._entered.add((user.folder, extra, lenient))
            if not entered:
                new.append(extra)
        if new:
            self._todo.append((user, (*way, user.name), new, lenient))

    def drain(self) -> None:
        """Read the requirements of all distributions that were added, and of those that they lead to."""
        while self._todo:
            user, way, extras, lenient = self._todo.popleft()
            try:
                requirements = requirements_of(user, self._layout, extras)
            except CannotTell as error:
                if len(way) == 1:  # what a framework requires must be known; of others it is no news
                    self.unclear.append(error)
                continue
            for requirement in requirements:
                self._follow(user, way, requirement, lenient or self._lenient(user, requirement.name))
            for more in self._unsaid(user):
                self._follow(
                    user,
                    way,
                    RequiredDistribution(normalize_name(more.name), more.specifier),
                    lenient or more.lenient,
                    more.reason,
                )

    def _follow(
        self,
        user: Distribution,
        way: tuple[str, ...],
        requirement: RequiredDistribution,
        lenient: bool,
        reason: str = "",
    ) -> None:
        from packaging.specifiers import SpecifierSet

        try:
            distribution, alike = self._find_installed(requirement.name)
        except CannotTell as error:
            self.unclear.append(error)
            return
        any_version = not alike or self._overruled(user, requirement.name)
        specifier = SpecifierSet() if any_version else requirement.specifier
        failure = self._failing(user, distribution) if distribution is not None and alike else None
        # What is unstated has its own reason.
        if failure is not None and not reason:
            reason, lenient = failure.reason, lenient or failure.lenient
        self.needs.append(Requirement(user, requirement.name, specifier, distribution, way, lenient, reason))
        if distribution is not None:
            self.enter(distribution, way, ("", *requirement.extras), lenient)

    def _find_installed(self, name: str) -> tuple[Optional[Distribution], bool]:
        """The installed distribution (None without one), and whether its version can be compared with the
        required one.
        """
        for other, alike in {**self._stand_ins.get(name, {}), name: True}.items():
            distribution = self._interpreter.installed(other)
            if distribution is not None:
                return distribution, alike
        self._interpreter.require_certain_absence(name)
        return None, True


def join_specifiers(needs: Sequence[Requirement]) -> SpecifierSet:
    """The versions that meet all requirements."""
    from packaging.specifiers import SpecifierSet

    both = SpecifierSet()
    for need in needs:
        both &= need.specifier
    return both


def find_excluding(needs: Sequence[Requirement]) -> Optional[tuple[Requirement, Requirement]]:
    """Two requirements that no version meets; of three that exclude each other only together, the first and
    the last. None without such.
    """
    for index, first in enumerate(needs):
        for second in needs[index + 1 :]:
            if is_empty(first.specifier & second.specifier):
                return first, second
    return (needs[0], needs[-1]) if len(needs) > 1 and is_empty(join_specifiers(needs)) else None
