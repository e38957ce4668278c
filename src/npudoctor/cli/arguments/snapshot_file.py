"""Reads the snapshots that the command line names."""

from __future__ import annotations

import os

from npudoctor.cli.arguments.named_files import read_named
from npudoctor.cli.config import UsageError
from npudoctor.core.messages import _
from npudoctor.facts.snapshot.document import LARGEST, Snapshot, UnreadableSnapshot, parse


def read_snapshot(name: str, option: str) -> Snapshot:
    """The snapshot or report in a file, "-" for standard input. Raises UsageError when it is neither."""
    if name == "-" and os.isatty(0):
        raise UsageError(_("-: standard input is a terminal; specify a file, or pipe a snapshot in"))
    try:
        return parse(read_named(option, name, LARGEST))
    except UnreadableSnapshot as why:
        raise UsageError(
            _("{option}: {path} is not a snapshot: {why}", option=option, path=name, why=why)
        ) from why
