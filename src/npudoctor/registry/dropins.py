"""Checks from a directory of the administrator's: trusted by owner and mode, run in child processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.checking.check import Check, CheckFailure, CheckOutput
from npudoctor.core.messages import _, strerror
from npudoctor.core.model import Status
from npudoctor.core.trust.paths import read_trusted, why_untrusted
from npudoctor.host import CannotTell, Host
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.registry import foreign
from npudoctor.registry.collector import DROP_IN_GROUP

if TYPE_CHECKING:
    from npudoctor.registry.child import GuardedChild
    from npudoctor.registry.collector import Collector, ForeignCall


def load(collector: Collector, directory: str, seconds: float, *, named: bool) -> None:
    """Load the drop-ins of a directory; `named`: somebody asked for it, so that it must be there."""
    directory = os.path.abspath(directory)
    disk = LocalDisk(min(3.0, seconds / 2))
    try:
        names, reason = _names(directory, Files(disk), named)
        if reason:
            collector.breaks(os.path.basename(directory) or "/", DROP_IN_GROUP, reason)
        files = [DropIn(collector, directory, name) for name in names]
        for file in files:
            file.start(Files(disk))
    finally:
        disk.close()
    until = time.monotonic() + seconds
    for file in files:
        file.finish(until)


def _names(directory: str, files: Files, named: bool) -> tuple[list[str], Optional[str]]:
    """The names of the drop-ins, or why there can be none."""
    try:
        reason = _why_remote(directory, files)
        if reason:
            return [], reason
        names = sorted(name for name in os.listdir(directory) if name.endswith(".py"))
        reason = why_untrusted(directory, os.geteuid()) if names else None
        return ([], reason) if reason else (names, None)
    except FileNotFoundError:
        return [], _("{path} does not exist", path=directory) if named else None
    except OSError as error:
        why = strerror(error.errno)
        return [], _("{path} cannot be read: {why}", path=directory, why=why)


def _why_remote(path: str, files: Files) -> Optional[str]:
    """Why a path is not touched by ourselves: what lies on a mount that dies would hold the whole run."""
    try:
        real = files.real(path)
    except CannotTell as error:
        return error.reason
    if real is not None and files.may_block(real):
        return _(
            "{path} is on a file system that may hang; drop-ins are read from local ones only", path=path
        )
    return None


class ForeignCheck:
    """Somebody else's code on its way to be a check; `load` is called in child processes only.

    `where` is the file that names it, where its own name does not tell.
    """

    def __init__(
        self, collector: Collector, name: str, group: str, load: Callable[[], Check], where: str = ""
    ) -> None:
        self._collector, self._name, self._group, self._where = collector, name, group, where
        self._load = load
        self._child: Optional[GuardedChild] = None

    def begin(self) -> None:
        """Load it in a child."""
        from npudoctor.registry.child import start_child

        try:
            self._child = start_child(lambda: foreign.declaration(self._load))
        except OSError as error:
            self.breaks(_no_process(error))

    def finish(self, until: float) -> None:
        """Take what it declares."""
        if self._child is None:
            return
        try:
            declaration = self._child.answer(until)
        except CheckFailure:
            self.breaks(_("loading did not finish in time"))
            return
        if declaration is None or "broken" in declaration:
            why = _("its process ended during loading") if declaration is None else str(declaration["broken"])
            self.breaks(why)
            return
        try:
            check = foreign.check_from_declaration(declaration, self._name, _never, self._group)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.breaks(f"{type(error).__name__}: {error}")
            return
        if self._collector.add(check, self._where):
            self._collector.foreign[check.id] = self._foreign_call()

    def _foreign_call(self) -> ForeignCall:
        from npudoctor.registry.child import start_child

        def ask(host: Host) -> Callable[[float], Iterator[CheckOutput]]:
            try:
                child = start_child(lambda: foreign.ask_in_child(self._load, host))
            except OSError as error:
                return _fail_when_asked(_no_process(error))
            return lambda until: foreign.replay_answers(child.answer(until))

        return ask

    def breaks(self, why: str) -> None:
        """Report that it is no check."""
        self._collector.breaks(self._name, self._group, why, self._where)


class DropIn(ForeignCheck):
    """One file on its way to be a check."""

    def __init__(self, collector: Collector, directory: str, file: str) -> None:
        self._path = os.path.join(directory, file)
        self._source = b""
        name = file[: -len(".py")]
        super().__init__(collector, name, DROP_IN_GROUP, lambda: foreign.load(self._source, self._path, name))

    def start(self, files: Files) -> None:
        """Read the file once, judge it, and load what was read in a child."""
        reason = _why_remote(self._path, files)
        source, untrusted = (None, reason) if reason else read_trusted(self._path, os.geteuid())
        if source is None:
            self.breaks(untrusted or "")
            return
        self._source = source
        self.begin()


def _fail_when_asked(why: str) -> Callable[[float], Iterator[CheckOutput]]:
    """What is asked instead where no process can be started; apart, as it raises only when it is asked."""

    def fail(until: float) -> Iterator[CheckOutput]:
        raise CheckFailure(Status.CRASHED, why)

    return fail


def _no_process(error: OSError) -> str:
    return _("cannot start a process for it: {why}", why=strerror(error.errno))


def _never(host: Host) -> Iterator[CheckOutput]:
    """The question of a foreign check, as every check has one."""
    raise AssertionError("a foreign check is asked in a child process")
