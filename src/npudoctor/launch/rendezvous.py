"""The directory through which the ranks of a node share an answer: private to their user, without links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Optional

from npudoctor.core import way
from npudoctor.core.parsing import json_of
from npudoctor.launch.preflight import encode_line

LARGEST = 1 << 20  # bytes of a record


class Rendezvous:
    """An open directory. All operations use its descriptor, and may raise OSError."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    @classmethod
    def open_first(cls, euid: int, variables: Mapping[str, str]) -> Optional[Rendezvous]:
        """Open the first candidate directory that is usable and private to the user; None when there is
        none."""
        for path in _candidate_folders(euid, variables):
            # The parent may be missing, read-only, or another user's: then the next candidate.
            with suppress(OSError):
                descriptor = way.make_folder(path, parents=False)
                entry = os.fstat(descriptor)
                if entry.st_uid == euid and not entry.st_mode & 0o077:
                    return cls(path, descriptor)
                os.close(descriptor)
        return None

    def read(self, name: str) -> Optional[dict[str, Any]]:
        """The record in a file; None when it is missing or no record of npudoctor."""
        # A damaged record counts as none: the rank then checks itself.
        with suppress(OSError, ValueError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(name, flags, dir_fd=self._descriptor), "rb") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    record = json_of(file.read(LARGEST + 1), most=LARGEST)
                    return record if isinstance(record, dict) else None
        return None

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Write a record atomically: readers see the old or the new one."""
        new = f".{name}-{os.getpid()}"
        self.remove(new)
        with open(way.open_new(new, self._descriptor), "wb") as file:
            file.write(encode_line(record))
        way.replace(new, name, self._descriptor)

    def remove(self, name: str) -> None:
        # Another rank may have removed it at the same time.
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def list_names(self) -> Iterator[str]:
        """Yield the names of all files in the directory."""
        yield from os.listdir(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def _candidate_folders(euid: int, variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the candidate paths. Root ignores XDG_RUNTIME_DIR: after sudo -E it belongs to another user."""
    if euid == 0:
        yield "/run/npudoctor"
    elif variables.get("XDG_RUNTIME_DIR", "").startswith("/"):
        yield os.path.join(variables["XDG_RUNTIME_DIR"], "npudoctor")
    yield f"/tmp/npudoctor-{euid}"  # noqa: S108  (its owner and mode are judged)
