"""The user's cache: what is quicker read than made again. Where anything is odd about it, it is not used."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Optional

_MOST = 64 << 20
_HEAD = 32  # the digest that stands before what is kept


class Cache:
    """Files of one folder that is ours; what another could have written is never read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def get(self, name: str) -> Optional[bytes]:
        """What is kept under this name; None when there is nothing, or it is not certain to be ours."""
        path = os.path.join(self.folder, name)
        try:
            if not _ours(os.lstat(self.folder)):
                return None
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode) or not _ours(found) or found.st_size > _MOST:
                    return None
                content = file.read(_MOST + _HEAD)
        except OSError:
            return None
        digest, kept = content[:_HEAD], content[_HEAD:]
        return kept if hashlib.sha256(kept).digest() == digest else None

    def put(self, name: str, content: bytes) -> None:
        """Keep it, as a whole or not at all; the older ones of its kind go."""
        temporary = os.path.join(self.folder, f".{os.urandom(8).hex()}")
        if not _trusted(self.folder):
            return
        with contextlib.suppress(OSError):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            if not _ours(os.lstat(self.folder)):
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with open(os.open(temporary, flags, 0o600), "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                os.replace(temporary, os.path.join(self.folder, name))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            self._clean(name)

    def _clean(self, name: str) -> None:
        """Of each kind the three newest are kept: one for each interpreter or machine that shares a HOME."""
        kind, _dash, _key = name.partition("-")
        paths = [
            os.path.join(self.folder, one) for one in os.listdir(self.folder) if one.startswith(kind + "-")
        ]
        for path in sorted(paths, key=_age)[:-3]:
            with contextlib.suppress(OSError):
                os.unlink(path)


def cache_of(variables: Mapping[str, str]) -> Optional[Cache]:
    """The cache of who called; None where there is no place for one."""
    base = variables.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = variables.get("HOME", "")
        if not os.path.isabs(home) or not os.path.isdir(home):  # a home that is not there is not made
            return None
        base = os.path.join(home, ".cache")
    return Cache(os.path.join(base, "npudoctor"))


def _trusted(folder: str) -> bool:
    """Whether we may write there: root does only where nobody else says by links and folders where that is.
    With sudo or su, HOME is often still another user's."""
    if os.geteuid():
        return True
    return all(_of_root(path) for start in (folder, os.path.realpath(folder)) for path in _chain(start))


def _chain(path: str) -> Iterator[str]:
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _of_root(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == 0
    except OSError:
        return not os.path.lexists(path)


def _age(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _ours(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022
