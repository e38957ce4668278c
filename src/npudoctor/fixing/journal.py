"""The journal of a fix: every act and its evidence is on disk before the act, in a folder of our own."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import stat
import time
from typing import Optional

from npudoctor.fixing.outcome import Observer
from npudoctor.messages import _


class NoJournal(Exception):
    """Nothing can be written down, so nothing may be done."""


class Journal:
    """One run's journal: lines of JSON, each on disk before the next is thought of.

    Holding it is holding the lock: no second fix of the same user runs beside this one.
    """

    def __init__(self, directory: str, boot_id: Optional[str], at: Observer = lambda name: None) -> None:
        self.directory = directory
        self.run = time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + "-" + secrets.token_hex(4)
        self._boot_id = boot_id
        self._at = at
        self._lock = -1
        self._file = -1

    def __enter__(self) -> Journal:
        try:
            folder = os.path.join(self.directory, "journal")
            _own_folder(self.directory)
            _own_folder(folder)
            self._lock = _locked(os.path.join(self.directory, "lock"))
            path = os.path.join(folder, f"{self.run}.jsonl")
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            _sync(folder)
        except OSError as error:
            self.__exit__()
            raise NoJournal(_why(self.directory, error)) from error
        return self

    def __exit__(self, *_details: object) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def write(self, event: str, **data: object) -> None:
        """Append one record and wait until the disk has it."""
        record = {"event": event, "run": self.run, "at": _moment(), "boot_id": self._boot_id, **data}
        line = json.dumps(record, ensure_ascii=True).encode() + b"\n"
        self._at(f"before journal {event}")
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            raise NoJournal(_why(self.directory, error)) from error
        self._at(f"after journal {event}")


def _own_folder(path: str) -> None:
    """Make a folder that only we may enter, or refuse one that is not so."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path, 0o700)
        _sync(os.path.dirname(path))
    except FileExistsError:
        pass
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), path)
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)


def _locked(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _why(directory: str, error: OSError) -> str:
    if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
        return _("another fix is running")
    why = os.strerror(error.errno) if error.errno else str(error)
    text = _("the journal in {path} cannot be written, so nothing is done: {why}")
    return text.format(path=directory, why=why)


def _moment() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
