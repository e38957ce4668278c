"""Opens this machine and the caller's journal, for commands that run no check."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from npudoctor.cli.caller import Caller
from npudoctor.cli.terminal import signals
from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.fixing.history import FixRun
    from npudoctor.host import Host


@contextlib.contextmanager
def open_own_machine(caller: Caller) -> Iterator[Host]:
    """A context with a Host; processes that it started are ended with the context."""
    from npudoctor.host import Host, Options

    signals.keep_child_statuses()
    host = Host(Options(), variables=caller.variables)
    try:
        yield host
    finally:
        host.close()


def list_own_runs(host: Host) -> list[FixRun]:
    """The runs of this user, newest first; warns on standard error about a journal that is not trusted."""
    from npudoctor.cli.terminal import output
    from npudoctor.fixing.history import runs_of

    runs = runs_of(host.records)
    for doubt in host.records.doubts:
        output.complain(_("warning: {text}", text=doubt))
    return runs


def find_run(runs: Sequence[FixRun], name: str) -> FixRun:
    """The run whose name starts with `name`; raises UsageError for none or several."""
    from npudoctor.cli.config import UsageError, suggestion
    from npudoctor.fixing.undoing import find_runs

    matches = find_runs(runs, name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(run.name for run in matches[:5])
        raise UsageError(_("{name} matches several runs: {names}", name=name, names=names))
    hint = suggestion(name, {run.name for run in runs}) or _("; see `npudoctor history`")
    raise UsageError(_("no such run: {name}{suggestion}", name=name, suggestion=hint))
