"""Copies of the files that we replace, beside the journal, each under the sha256 of its content."""

from __future__ import annotations

import os
import stat
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.fixing.journal import own_folder, sync
from npudoctor.fixing.outcome import Observer, Refused, changing
from npudoctor.fixing.steps.texts import LIMIT, digest, kept_path
from npudoctor.host import Host


def save_backup(path: Optional[str], content: bytes, host: Host, at: Observer) -> None:
    """Have the copy on disk before its original is touched."""
    expected = kept_path(host, digest(content))
    if path != expected:  # what was shown is what is done
        raise Refused(_("its backup would be {path}").format(path=expected))
    folder = os.path.dirname(expected)
    own_folder(host.records.directory, "state folder", at)
    own_folder(folder, "folder of copies", at)
    if _read(expected, host.identity.euid) == content:
        return
    with changing(at, "keep copy"):
        new = os.path.join(folder, "new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, expected)
        sync(folder)


def read_backup(path: str, sha256: str, host: Host) -> bytes:
    """The content of a copy; Refused where it is gone, or is not what it was."""
    content = _read(path, host.identity.euid) if path == kept_path(host, sha256) else None
    if content is None or digest(content) != sha256:
        raise Refused(_("the backup {path} is gone or was changed").format(path=path))
    return content


def _read(path: str, euid: int) -> Optional[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        entry = os.fstat(descriptor)
        ours = stat.S_ISREG(entry.st_mode) and entry.st_uid == euid and not entry.st_mode & 0o022
        return file.read(LIMIT + 1) if ours else None
