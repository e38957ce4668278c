"""The journal of a fix: every act and its evidence is on disk before the act, in a folder of our own."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from typing import Optional

from npudoctor.core import way
from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact_value
from npudoctor.fixing.outcome import Observer, watch_change


class NoJournal(Exception):
    """The journal cannot be written, so nothing may be changed; the text says why."""


class Journal:
    """The journal of one run: lines of JSON, each on disk before anything else happens.

    An open journal holds the lock, so that no second fix of the same user runs at the same time.
    """

    def __init__(self, directory: str, boot_id: Optional[str], at: Observer = lambda name: None) -> None:
        self.directory = directory
        # It sorts by time: the second, then in hexadecimal its microsecond and three random digits.
        second, rest = divmod(time.time_ns(), 10**9)
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(second))
        self.run = f"{moment}-{rest // 1000:05x}{os.urandom(2).hex()[:3]}"
        self._boot_id = boot_id
        self._at = at
        self._lock = -1
        self._file = -1
        self._broken: Optional[NoJournal] = None

    def __enter__(self) -> Journal:
        folders = []
        try:
            folders.append(own_folder(self.directory, "state folder", self._at))
            folders.append(own_folder(os.path.join(self.directory, "journal"), "journal folder", self._at))
            with watch_change(self._at, "make lock"):
                self._lock = _lock(folders[0])
            with watch_change(self._at, "make journal"):
                # O_APPEND: no write can overwrite an earlier line.
                self._file = way.open_new(f"{self.run}.jsonl", folders[1], append=True)
                os.fsync(folders[1])
        except BaseException as error:
            # __exit__ is not called where __enter__ raises.
            self.__exit__()
            if isinstance(error, OSError):
                raise NoJournal(_failure_text(self.directory, error)) from error
            raise
        finally:
            for folder in folders:
                os.close(folder)
        return self

    def __exit__(self, *_details: object) -> None:
        # The lock last: the journal is closed before another run may begin.
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def write(self, event: str, **data: object) -> None:
        """Append one record and wait until it is on disk.

        After a record that could not be written no other is: it may have left half a line, and the next would
        be glued to it.
        """
        if self._broken is not None:
            raise self._broken
        # A step stays as it is: undoing it needs its very words, and only its user may read the journal.
        shown = {key: value if key == "step" else redact_value(value) for key, value in data.items()}
        record = {
            "event": event,
            "run": self.run,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "boot_id": self._boot_id,
            **shown,
        }
        line = json.dumps(record, ensure_ascii=True).encode() + b"\n"
        try:
            with watch_change(self._at, f"journal {event}"):
                if os.write(self._file, line) != len(line):
                    # write(2) writes less than all only where the disk or the quota is full.
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._file)
        except OSError as error:
            self._broken = NoJournal(_failure_text(self.directory, error))
            raise self._broken from error


def own_folder(path: str, name: str, at: Observer) -> int:
    """Open a folder that only this user may enter, created where it is missing; return the descriptor.
    OSError for one that is not private.
    """
    # So that the observer is told of a change only where there is one.
    if not os.path.lexists(path):
        with watch_change(at, f"make {name}"):
            descriptor = way.make_folder(path)
            sync_folder(os.path.dirname(path))
    else:
        descriptor = way.make_folder(path)
    try:
        entry = os.fstat(descriptor)
        # Its owner could read the journal, and exchange it.
        if entry.st_uid != os.geteuid():
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), path)
        if entry.st_mode & 0o077:
            with watch_change(at, f"close {name}"):
                os.fchmod(descriptor, 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(folder: int) -> int:
    descriptor = way.open_or_make("lock", folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def sync_folder(folder: str) -> None:
    """Write the names in a folder to disk (fsync)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failure_text(directory: str, error: OSError) -> str:
    if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
        return _("another fix is running")
    why = way.reason_of(error) if error.errno or isinstance(error, way.UnsafePath) else str(error)
    return _(
        "cannot write the journal in {path}, so nothing is changed: {why}",
        path=directory,
        why=why,
    )
