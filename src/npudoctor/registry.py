"""Finds the checks: built-in by their files, drop-ins by a directory. A broken one becomes a row."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Callable, Optional

from npudoctor import foreign
from npudoctor.checking import Answer, Check
from npudoctor.frozen import dataclass
from npudoctor.host import Host
from npudoctor.messages import _
from npudoctor.model import Result, Status
from npudoctor.trust import read_trusted, why_untrusted

DROP_INS = "/etc/npudoctor/checks.d"
DROP_IN_GROUP = "drop-in"

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


class Collector:
    """Gathers checks; one whose name is taken becomes a broken row and never replaces the first."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.broken: list[Result] = []
        self.foreign: dict[str, Asking] = {}
        self._ids: set[str] = set()
        self._words: set[str] = set()

    def add(self, check: Check) -> bool:
        """Take a check in; False when its id is taken by an id, group, tag or code."""
        if check.id in self._ids | self._words:
            self.breaks(check.id, check.group, _("the name {name} is taken").format(name=check.id))
            return False
        self._ids.add(check.id)
        self._words.update(check.names)
        self.checks.append(check)
        return True

    def breaks(self, name: str, group: str, why: str) -> None:
        """Report a check that could not be loaded."""
        title = _("this check could not be loaded")
        self.broken.append(Result(name, title, group, Status.BROKEN, reason=why))

    def loaded(self) -> Loaded:
        """What was gathered."""
        return Loaded(tuple(self.checks), tuple(self.broken), self.foreign)


def load_all(variables: Mapping[str, str], seconds: float = foreign.DECLARE_SECONDS) -> Loaded:
    """The built-in checks and the drop-ins that the caller's variables name; call it before any thread.

    `seconds`: how long the drop-ins may take to load, all together.
    """
    collector = Collector()
    _load_built_in(collector)
    directory = variables.get("NPUDOCTOR_CHECKS_DIR", DROP_INS)
    if directory:
        _load_drop_ins(collector, directory, min(seconds, foreign.DECLARE_SECONDS))
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
    for group, name in check_files(list(package.__path__)):
        expected = name.replace("_", "-")
        try:
            module = import_module(f"npudoctor.checks.{group}.{name}")
            found = [value for value in vars(module).values() if isinstance(value, Check)]
            if len(found) != 1 or found[0].id != expected:
                raise ValueError(f"the file must hold the one check {expected!r}")
        except Exception as error:
            collector.breaks(expected, group, f"{type(error).__name__}: {error}")
        else:
            collector.add(replace(found[0], group=group))


def _load_drop_ins(collector: Collector, directory: str, seconds: float) -> None:
    euid = os.geteuid()
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".py"))
        reason = why_untrusted(directory, euid) if names else None
    except FileNotFoundError:
        return
    except OSError as error:
        names, reason = [], f"{directory}: {os.strerror(error.errno or 0)}"
    if reason:
        collector.breaks(os.path.basename(directory.rstrip("/")) or "/", DROP_IN_GROUP, reason)
        return
    loading = [_start_loading(collector, os.path.join(directory, name), name[:-3], euid) for name in names]
    until = time.monotonic() + seconds
    for started in loading:
        if started is not None:
            _finish_loading(collector, *started, until)


def _start_loading(
    collector: Collector, path: str, name: str, euid: int
) -> Optional[tuple[foreign.Child, bytes, str, str]]:
    source, reason = read_trusted(path, euid)
    if source is None:
        collector.breaks(name, DROP_IN_GROUP, reason or "")
        return None
    kept: bytes = source
    return foreign.in_child(lambda: foreign.declaration(kept, path, name)), kept, path, name


def _finish_loading(
    collector: Collector, child: foreign.Child, source: bytes, path: str, name: str, until: float
) -> None:
    try:
        told = child.answer(until)
    except TimeoutError:
        collector.breaks(name, DROP_IN_GROUP, _("loading it did not end"))
        return
    if told is None or "broken" in told:
        why = _("its process ended while it was loaded") if told is None else str(told["broken"])
        collector.breaks(name, DROP_IN_GROUP, why)
        return
    if collector.add(foreign.declared(told, _never)):
        collector.foreign[told["id"]] = _asking(source, path, name)


def _asking(source: bytes, path: str, name: str) -> Asking:
    def ask(host: Host) -> Callable[[float], Iterator[Answer]]:
        child = foreign.in_child(lambda: foreign.asked(source, path, name, host))
        return lambda until: _replayed(child, until)

    return ask


def _replayed(child: foreign.Child, until: float) -> Iterator[Answer]:
    told: Optional[dict[str, object]] = child.answer(until)
    answers: Iterator[Answer] = foreign.answers_of(told)
    return answers


def _never(host: Host) -> Iterator[Answer]:
    raise AssertionError("a foreign check is asked in a child process")
