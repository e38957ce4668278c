"""This machine with the caller's own journal, for commands that ask no check."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from npudoctor.cli.caller import Caller
from npudoctor.cli.terminal import signals
from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.fixing.history import FixRun
    from npudoctor.host import Host


@contextlib.contextmanager
def own_machine(caller: Caller) -> Iterator[Host]:
    """A host; what it started is ended with it."""
    from npudoctor.host import Host, Options

    signals.keep_child_statuses()
    host = Host(Options(), variables=caller.variables)
    try:
        yield host
    finally:
        host.close()


def own_runs(host: Host) -> list[FixRun]:
    """The runs of this user, the newest first; a journal that cannot be believed is named on stderr."""
    from npudoctor.cli.terminal import output
    from npudoctor.fixing.history import runs_of

    runs = runs_of(host.records)
    for doubt in host.records.doubts:
        output.complain(_("warning: {text}").format(text=doubt))
    return runs
