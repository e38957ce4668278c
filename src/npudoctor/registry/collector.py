"""Collects the checks of all origins, those that could not be loaded, and how foreign ones are run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.checking.check import Check, CheckOutput
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import Result, Status

if TYPE_CHECKING:
    from npudoctor.host import Host

    # Forks the child of a foreign check; the runner calls it before it starts any thread. The result waits
    # for the output until a time on the monotonic clock.
    ForeignCall = Callable[[Host], Callable[[float], Iterator[CheckOutput]]]

DROP_IN_GROUP, PLUG_IN_GROUP = "drop-in", "plug-in"
MOST_LISTED = 3  # how many checks that were not loaded are listed in the error for an unknown name


@dataclass(frozen=True)
class LoadedChecks:
    """All checks that were found. `broken`: rows of those that could not be loaded; `foreign`: by id of a
    third party's check, how to run it."""

    checks: tuple[Check, ...]
    broken: tuple[Result, ...]
    foreign: Mapping[str, ForeignCall]

    def names(self) -> set[str]:
        """All names that --select and --ignore accept: ids, groups, tags and codes."""
        names = {name for check in self.checks for name in check.names}
        return names | {name for row in self.broken for name in (row.check, row.group)} - {""}

    def explain_group_or_tag(self, name: str) -> Optional[str]:
        """The error for a group or a tag where a check or a code is required; None for any other name."""
        groups = {check.group for check in self.checks} | {row.group for row in self.broken}
        if name in groups - {""}:
            return _("{name} is a group: a check or a code is required", name=name)
        if any(name in check.tags for check in self.checks):
            return _("{name} is a tag: a check or a code is required", name=name)
        return None

    def find_broken(self, name: str) -> Optional[Result]:
        """The row of the broken check with this id or code, None when there is none.

        The file my_check.py holds the check my-check.
        """
        check = name.partition(".")[0]
        return next((row for row in self.broken if check in (row.check, row.check.replace("_", "-"))), None)

    def not_loaded_hint(self) -> str:
        """The end of the error for an unknown name: the drop-ins and plug-ins that were not loaded and may
        have that name; "" when all were loaded."""
        foreign = (DROP_IN_GROUP, PLUG_IN_GROUP)
        reasons = [f"{row.check}: {row.reason}" for row in self.broken if row.group in foreign]
        if not reasons:
            return ""
        shown = reasons[:MOST_LISTED] + (["..."] if len(reasons) > MOST_LISTED else [])
        return _("; not loaded: {reasons}", reasons=_("; ").join(shown))


class Collector:
    """Collects checks; one whose name is already taken becomes a broken row and never replaces the first."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.broken: list[Result] = []
        self.foreign: dict[str, ForeignCall] = {}
        # Ids, groups and codes are unique. Tags may be shared by checks; a new id must not equal a tag,
        # though.
        self._owned: set[str] = {DROP_IN_GROUP, PLUG_IN_GROUP}
        self._tags: set[str] = set()

    def add(self, check: Check, where: str = "") -> bool:
        """Add a check; False when its id equals another name, or one of its tags an id, group or code.

        `where`: the file that supplies it, for the reason in the broken row.
        """
        conflicting_names = {check.id} & (self._owned | self._tags) or set(check.tags) & self._owned
        if conflicting_names:
            why = _("the name {name} is already taken", name=min(conflicting_names))
            self.add_broken(check.id, check.group, why, where)
            return False
        self._owned |= {check.id, check.group, *check.codes}
        self._tags.update(check.tags)
        self.checks.append(check)
        return True

    def add_broken(self, name: str, group: str, why: str, where: str = "") -> None:
        """Add a row for a check that could not be loaded."""
        title = _("this check could not be loaded")
        self.broken.append(
            Result(name, title, group, Status.BROKEN, reason=f"{where}: {why}" if where else why)
        )

    def freeze(self) -> LoadedChecks:
        """The checks collected so far, as an immutable value."""
        return LoadedChecks(tuple(self.checks), tuple(self.broken), self.foreign)
