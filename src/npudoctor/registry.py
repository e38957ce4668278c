"""Finds the checks: built-in by their files, drop-ins by a directory. A broken one becomes a row."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Callable, Optional

from npudoctor import index
from npudoctor.checking import Answer, Check
from npudoctor.entrypoints import entry_points
from npudoctor.frozen import dataclass
from npudoctor.host import Host
from npudoctor.messages import _
from npudoctor.model import Result, Status

DROP_INS = "/etc/npudoctor/checks.d"
DROP_IN_GROUP, PLUG_IN_GROUP = "drop-in", "plug-in"
LOAD_SECONDS = 5.0
UNREAD = 3  # checks that were not loaded that are named beside a name that is not known

# A forked question: the runner calls it before it starts any thread, and gets what waits for the answer.
Asking = Callable[[Host], Callable[[float], Iterator[Answer]]]


@dataclass(frozen=True)
class Loaded:
    """All that was found. `foreign` holds, by id, how a check of a third party is asked."""

    checks: tuple[Check, ...]
    broken: tuple[Result, ...]
    foreign: Mapping[str, Asking]

    def names(self) -> set[str]:
        """Everything that selects or ignores: ids, groups, tags, codes."""
        found = {name for check in self.checks for name in check.names}
        return found | {name for row in self.broken for name in (row.check, row.group)} - {""}

    def kind(self, name: str) -> Optional[str]:
        """Why a name does not do where a check or a code is wanted, if it is a group or a tag."""
        groups = {check.group for check in self.checks} | {row.group for row in self.broken}
        if name in groups - {""}:
            return _("{name} is a group: a check or a code is required").format(name=name)
        if any(name in check.tags for check in self.checks):
            return _("{name} is a tag: a check or a code is required").format(name=name)
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
        return _("; not loaded: {reasons}").format(reasons="; ".join(shown))


class Collector:
    """Gathers checks; one whose name is taken becomes a broken row and never replaces the first."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.broken: list[Result] = []
        self.foreign: dict[str, Asking] = {}
        # Ids and groups are nobody else's; tags may be shared, and so only keep an id from being one.
        self._owned: set[str] = {DROP_IN_GROUP, PLUG_IN_GROUP}
        self._tags: set[str] = set()

    def add(self, check: Check, where: str = "") -> bool:
        """Take a check in; False when its id or a tag is taken by an id, group, tag or code.

        `where`: the file that brings it, for the reason of a broken row.
        """
        taken = {check.id} & (self._owned | self._tags) or set(check.tags) & self._owned
        if taken:
            why = _("the name {name} is already taken").format(name=min(taken))
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

    def loaded(self) -> Loaded:
        """What was gathered."""
        return Loaded(tuple(self.checks), tuple(self.broken), self.foreign)


def load_all(variables: Mapping[str, str], seconds: float = LOAD_SECONDS) -> Loaded:
    """The built-in checks, the plug-ins, and the drop-ins that the caller's variables name; call it before
    any thread.

    `seconds`: how long plug-ins and drop-ins may take to load, all together.
    """
    collector = Collector()
    _load_built_in(collector)
    until = time.monotonic() + min(seconds, LOAD_SECONDS)
    named = entry_points(sys.path)
    if named:
        from npudoctor import plugins

        plugins.load(collector, named, until)
    directory = variables.get("NPUDOCTOR_CHECKS_DIR", DROP_INS)
    if directory and (directory != DROP_INS or os.path.lexists(DROP_INS)):
        from npudoctor import dropins  # loaded only here: most machines have none

        left = max(0.1, until - time.monotonic())
        dropins.load(collector, directory, left, named=directory != DROP_INS)
    return collector.loaded()


def check_files(package_path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Group and module name of every check file below the given folders, in order."""
    for base in package_path:
        for group in sorted(os.listdir(base)):
            if os.path.isfile(os.path.join(base, group, "__init__.py")):
                for name in sorted(os.listdir(os.path.join(base, group))):
                    if name.endswith(".py") and not name.startswith("_"):
                        yield group, name[:-3]


def _load_built_in(collector: Collector) -> None:
    package = import_module("npudoctor.checks")
    known = index.listed()
    for group, name in check_files(list(package.__path__)):
        expected = name.replace("_", "-")
        try:
            check = known.get((group, expected)) or index.loaded(group, expected)
        except Exception as error:
            collector.breaks(expected, group, f"{type(error).__name__}: {error}")
        else:
            collector.add(check)
