"""What was found, from wherever it came: checks, those that are broken, and how foreign ones are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.checking.check import Check, CheckOutput
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import Result, Status

if TYPE_CHECKING:
    from npudoctor.host import Host

    # A forked question: the runner calls it before it starts any thread, and gets what waits for the answer.
    ForeignCall = Callable[[Host], Callable[[float], Iterator[CheckOutput]]]

DROP_IN_GROUP, PLUG_IN_GROUP = "drop-in", "plug-in"
UNREAD = 3  # checks that were not loaded, named after an unknown name


@dataclass(frozen=True)
class LoadedChecks:
    """All that was found. `foreign` holds, by id, how a check of a third party is asked."""

    checks: tuple[Check, ...]
    broken: tuple[Result, ...]
    foreign: Mapping[str, ForeignCall]

    def names(self) -> set[str]:
        """Everything that selects or ignores: ids, groups, tags, codes."""
        names = {name for check in self.checks for name in check.names}
        return names | {name for row in self.broken for name in (row.check, row.group)} - {""}

    def kind(self, name: str) -> Optional[str]:
        """Why a name does not do where a check or a code is wanted, if it is a group or a tag."""
        groups = {check.group for check in self.checks} | {row.group for row in self.broken}
        if name in groups - {""}:
            return _("{name} is a group: a check or a code is required", name=name)
        if any(name in check.tags for check in self.checks):
            return _("{name} is a tag: a check or a code is required", name=name)
        return None

    def not_loaded(self, name: str) -> Optional[Result]:
        """The row of the check that could not be loaded and that this id or code stands for; a file
        my_check.py is the check my-check."""
        check = name.partition(".")[0]
        return next((row for row in self.broken if check in (row.check, row.check.replace("_", "-"))), None)

    def unread(self) -> str:
        """What to add where a name is not known: the drop-ins and plug-ins that were not loaded, whose it
        may be; "" where all were."""
        foreign = (DROP_IN_GROUP, PLUG_IN_GROUP)
        reasons = [f"{row.check}: {row.reason}" for row in self.broken if row.group in foreign]
        if not reasons:
            return ""
        shown = reasons[:UNREAD] + (["..."] if len(reasons) > UNREAD else [])
        return _("; not loaded: {reasons}", reasons=_("; ").join(shown))


class Collector:
    """Gathers checks; one whose name is taken becomes a broken row and never replaces the first."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.broken: list[Result] = []
        self.foreign: dict[str, ForeignCall] = {}
        # Ids and groups are nobody else's; tags may be shared, and so only keep an id from being one.
        self._owned: set[str] = {DROP_IN_GROUP, PLUG_IN_GROUP}
        self._tags: set[str] = set()

    def add(self, check: Check, where: str = "") -> bool:
        """Take a check in; False when its id or a tag is taken by an id, group, tag or code.

        `where`: the file that brings it, for the reason of a broken row.
        """
        taken = {check.id} & (self._owned | self._tags) or set(check.tags) & self._owned
        if taken:
            why = _("the name {name} is already taken", name=min(taken))
            self.breaks(check.id, check.group, why, where)
            return False
        self._owned |= {check.id, check.group, *check.codes}
        self._tags.update(check.tags)
        self.checks.append(check)
        return True

    def breaks(self, name: str, group: str, why: str, where: str = "") -> None:
        """Report a check that could not be loaded."""
        title = _("this check could not be loaded")
        self.broken.append(
            Result(name, title, group, Status.BROKEN, reason=f"{where}: {why}" if where else why)
        )

    def freeze(self) -> LoadedChecks:
        """What was gathered."""
        return LoadedChecks(tuple(self.checks), tuple(self.broken), self.foreign)
