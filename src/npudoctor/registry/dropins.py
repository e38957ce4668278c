"""Loads checks from the administrator's directory: trusted by owner and mode, run in child processes."""

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


def load_drop_ins(collector: Collector, directory: str, seconds: float, *, is_required: bool) -> None:
    """Load the drop-ins of a directory, all together within `seconds`.

    `named`: the user set the directory, so that it must exist.
    """
    directory = os.path.abspath(directory)
    disk = LocalDisk(min(3.0, seconds / 2))
    try:
        names, reason = _list_names(directory, Files(disk), is_required)
        if reason:
            collector.add_broken(os.path.basename(directory) or "/", DROP_IN_GROUP, reason)
        files = [DropIn(collector, directory, name) for name in names]
        for file in files:
            file.start(Files(disk))
    finally:
        disk.close()
    until = time.monotonic() + seconds
    for file in files:
        file.finish(until)


def _list_names(directory: str, files: Files, is_required: bool) -> tuple[list[str], Optional[str]]:
    """The file names of the drop-ins; or [] and the reason why none is loaded, None when there are none."""
    try:
        reason = _why_remote(directory, files)
        if reason:
            return [], reason
        names = sorted(name for name in os.listdir(directory) if name.endswith(".py"))
        reason = why_untrusted(directory, os.geteuid()) if names else None
        return ([], reason) if reason else (names, None)
    except FileNotFoundError:
        return [], _("{path} does not exist", path=directory) if is_required else None
    except OSError as error:
        why = strerror(error.errno)
        return [], _("{path} cannot be read: {why}", path=directory, why=why)


def _why_remote(path: str, files: Files) -> Optional[str]:
    """Why this process must not read a path: on a mount that hangs, the whole run would hang. None: it
    may."""
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
    """A third party's check while it is being loaded. `load` is called in child processes only.

    `where`: the file that declares it, when the name does not tell; "" otherwise.
    """

    def __init__(
        self, collector: Collector, name: str, group: str, load: Callable[[], Check], where: str = ""
    ) -> None:
        self._collector, self._name, self._group, self._where = collector, name, group, where
        self._load = load
        self._child: Optional[GuardedChild] = None

    def begin(self) -> None:
        """Start a child that loads the check."""
        from npudoctor.registry.child import start_child

        try:
            self._child = start_child(lambda: foreign.declare_check(self._load))
        except OSError as error:
            self.report_broken(_no_process_reason(error))

    def finish(self, until: float) -> None:
        """Read what the child declares, and add the check or a broken row. `until`: on the monotonic
        clock."""
        if self._child is None:
            return
        try:
            declaration = self._child.read_answer(until)
        except CheckFailure:
            self.report_broken(_("loading did not finish in time"))
            return
        if declaration is None or "broken" in declaration:
            why = _("its process ended during loading") if declaration is None else str(declaration["broken"])
            self.report_broken(why)
            return
        try:
            check = foreign.check_from_declaration(declaration, self._name, _refuse_to_ask, self._group)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.report_broken(f"{type(error).__name__}: {error}")
            return
        if self._collector.add(check, self._where):
            self._collector.foreign[check.id] = self._foreign_call()

    def _foreign_call(self) -> ForeignCall:
        from npudoctor.registry.child import start_child

        def ask(host: Host) -> Callable[[float], Iterator[CheckOutput]]:
            try:
                child = start_child(lambda: foreign.ask_in_child(self._load, host))
            except OSError as error:
                return _fail_when_asked(_no_process_reason(error))
            return lambda until: foreign.replay_answers(child.read_answer(until))

        return ask

    def report_broken(self, why: str) -> None:
        """Add a broken row for it."""
        self._collector.add_broken(self._name, self._group, why, self._where)


class DropIn(ForeignCheck):
    """One file of the drop-in directory while it is being loaded."""

    def __init__(self, collector: Collector, directory: str, file: str) -> None:
        self._path = os.path.join(directory, file)
        self._source = b""
        name = file[: -len(".py")]
        super().__init__(
            collector, name, DROP_IN_GROUP, lambda: foreign.load_source(self._source, self._path, name)
        )

    def start(self, files: Files) -> None:
        """Read the file once, verify its owner and mode, and start a child that loads what was read."""
        reason = _why_remote(self._path, files)
        source, untrusted = (None, reason) if reason else read_trusted(self._path, os.geteuid())
        if source is None:
            self.report_broken(untrusted or "")
            return
        self._source = source
        self.begin()


def _fail_when_asked(why: str) -> Callable[[float], Iterator[CheckOutput]]:
    """A stand-in for a check whose process cannot be started: it raises when it is run, not before."""

    def fail(until: float) -> Iterator[CheckOutput]:
        raise CheckFailure(Status.CRASHED, why)

    return fail


def _no_process_reason(error: OSError) -> str:
    return _("cannot start a process for it: {why}", why=strerror(error.errno))


def _refuse_to_ask(host: Host) -> Iterator[CheckOutput]:
    """Fills the field `ask` of a foreign check, which the runner never calls."""
    raise AssertionError("a foreign check is asked in a child process")
