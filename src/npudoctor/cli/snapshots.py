"""Snapshots that the command line names: opened and read, or refused in one line."""

from __future__ import annotations

import os
import sys
from typing import Optional

from npudoctor.cli.config import UsageError, absolute
from npudoctor.core.messages import _, strerror
from npudoctor.facts.snapshot.document import LARGEST, Snapshot, Unreadable, parse
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files

DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


def read_snapshot(name: str, files: Files, option: str) -> Snapshot:
    """The snapshot or report in a file, "-" for standard input."""
    try:
        return parse(_content(name, files, option))
    except Unreadable as why:
        text = _("{option}: {path} is not a snapshot: {why}")
        raise UsageError(text.format(option=option, path=name, why=why)) from why


def _from_descriptor(name: str, option: str) -> bytes:
    """What a pipe holds that we were given: `npudoctor diff a.json <(ssh node2 npudoctor snapshot)`."""
    from npudoctor.cli.terminal.destinations import own_descriptor

    number = own_descriptor(name, option)
    if number is None:
        raise UsageError(_("{option}: {path} is not an open descriptor").format(option=option, path=name))
    try:
        with open(os.dup(number), "rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{option}: {name}: {strerror(error.errno)}") from error


def _content(name: str, files: Files, option: str) -> bytes:
    """What the file holds; nothing that is no regular file is opened, and a dead mount is not waited for."""
    if name == "-":
        if os.isatty(0):
            raise UsageError(_("-: standard input is a terminal; name a file, or pipe a snapshot in"))
        return sys.stdin.buffer.read(LARGEST + 1)
    if name.startswith(DESCRIPTORS):
        return _from_descriptor(name, option)
    try:
        content: Optional[bytes] = files.read(absolute(name, option), LARGEST + 1)
    except CannotTell as error:
        raise UsageError(f"{option}: {error.reason}") from error
    if content is None:
        raise UsageError(_("{option}: {path} does not exist").format(option=option, path=name))
    return content
