"""Judges what this user may do with a folder from modes, ids and mounts: nothing is written to try it."""

from __future__ import annotations

import stat
from typing import Optional

from npudoctor.core.errors import CannotTell, has_ended
from npudoctor.core.frozen import dataclass
from npudoctor.core.mounts import Mount
from npudoctor.host.fs.files import Files, PathStatus
from npudoctor.host.users.identity import Identity

READ, ENTER = 4, 1  # bits of a mode


@dataclass(frozen=True)
class NearestFolder:
    """A folder, or the nearest one above it that exists. `exists`: whether it is the folder itself."""

    path: str
    entry: PathStatus
    exists: bool

    @property
    def label(self) -> str:
        """Its path, owner and mode, for evidence."""
        return f"{self.path} uid={self.entry.uid} gid={self.entry.gid} mode={stat.filemode(self.entry.mode)}"


def nearest_folder(files: Files, path: str) -> NearestFolder:
    """The folder of a path, or the nearest existing one above it; CannotTell if it cannot be looked at."""
    candidate = path.rstrip("/") or "/"
    while True:
        entry = files.stat(candidate)
        if entry is not None or candidate == "/":
            break
        candidate = candidate.rpartition("/")[0] or "/"
    if entry is None:
        raise FileNotFoundError(candidate)  # there is no machine without a root
    return NearestFolder(candidate, entry, candidate == (path.rstrip("/") or "/"))


def is_closed(files: Files, folder: str) -> bool:
    """Whether Python skips a folder of its search path: this user may not list it or enter it, or its file
    server is gone. False says nothing about the folder."""
    try:
        files.names(folder)
        files.stat(f"{folder}/__init__.py")
    except CannotTell as unknown:
        return isinstance(unknown.__cause__, PermissionError) or has_ended(unknown)
    return False


def first_barrier(files: Files, path: str, identity: Identity) -> Optional[str]:
    """The first folder on the way to a path that this user certainly may not enter; None if there is none."""
    parts = path.strip("/").split("/")
    folders: dict[str, None] = {}
    for end in range(1, len(parts) + 1):
        # A link leads through folders that the path does not name: those above each resolved part count.
        above = ""
        for part in (files.real("/" + "/".join(parts[:end])) or "/").split("/")[:-1]:
            above = f"{above}/{part}".replace("//", "/") or "/"
            folders[above] = None
    for folder in folders:
        entry = files.lstat(folder)
        if entry is not None and entry.is_dir and identity.is_denied(entry, ENTER):
            return folder
    return None


def may_create_in(entry: PathStatus, identity: Identity, mount: Optional[Mount] = None) -> Optional[bool]:
    """Whether this user may create files in a folder; None if that cannot be told without trying.

    With an ACL the group bits of a mode are its mask (acl(5)), so a set group write bit may mean that an
    entry allows this user. An NFS server may map root to nobody (root_squash, exports(5)).
    """
    if mount is not None and mount.read_only:
        return False
    # With root_squash root is nobody on the server: only what everybody may do is certain.
    if identity.is_root and entry.is_dir and mount is not None and mount.kind.startswith("nfs"):
        return entry.mode & 0o003 == 0o003 or None
    if not entry.is_dir or identity.may_write(entry):
        return entry.is_dir
    return None if entry.uid != identity.euid and entry.mode & 0o030 == 0o030 else False
