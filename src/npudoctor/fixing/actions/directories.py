"""Opens the directories in which something is removed; a missing or replaced one is Gone or Refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from npudoctor.core.messages import _
from npudoctor.fixing.actions.endings import ActionRefused, AlreadyGone
from npudoctor.host.fs.walk import Parent, open_directory

_REPLACED = (errno.ELOOP, errno.ENOTDIR)  # a link, or no directory any more


@contextmanager
def open_folder(path: str) -> Iterator[tuple[int, tuple[Parent, ...]]]:
    """Open a directory and all its parents; AlreadyGone for a missing one, ActionRefused for a link on the
    way.
    """
    with refuse_replaced(path):
        # Entered by hand: an error of the block itself must not be taken for one of the opening.
        walk = open_directory(path)
        opened = walk.__enter__()
    try:
        yield opened
    finally:
        walk.__exit__(None, None, None)


@contextmanager
def open_subfolder(directory: int, name: str) -> Iterator[int]:
    """Open a directory in an opened one, with the same endings."""
    with refuse_replaced(name):
        # O_NOFOLLOW: a link in the place of the folder is an error.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def refuse_replaced(path: str) -> Iterator[None]:
    """Within the block, a missing path is AlreadyGone, and a link or another kind of file ActionRefused."""
    try:
        yield
    except FileNotFoundError:
        raise AlreadyGone from None
    except OSError as error:
        if error.errno in _REPLACED:
            raise ActionRefused(_("{path} has been replaced since", path=path)) from None
        raise
