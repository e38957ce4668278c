"""What this user may do with a folder, judged from modes, ids and mounts: nothing is written to try it."""

from __future__ import annotations

import stat
from typing import Optional

from npudoctor.core.errors import CannotTell, has_ended
from npudoctor.core.frozen import dataclass
from npudoctor.core.mounts import Mount
from npudoctor.host.fs.files import Files, PathStatus
from npudoctor.host.users.identity import Identity

READ, ENTER = 4, 1


@dataclass(frozen=True)
class NearestFolder:
    """A folder as it is, or the nearest one above it that exists. `there`: whether it is itself."""

    path: str
    entry: PathStatus
    there: bool

    @property
    def label(self) -> str:
        """Its path, owner and mode, for evidence."""
        return f"{self.path} uid={self.entry.uid} gid={self.entry.gid} mode={stat.filemode(self.entry.mode)}"


def nearest(files: Files, path: str) -> NearestFolder:
    """The folder that a path names, or in which it would be made; CannotTell when it cannot be looked at."""
    here = path.rstrip("/") or "/"
    while True:
        entry = files.stat(here)
        if entry is not None or here == "/":
            break
        here = here.rpartition("/")[0] or "/"
    if entry is None:
        raise FileNotFoundError(here)  # there is no machine without a root
    return NearestFolder(here, entry, here == (path.rstrip("/") or "/"))


def is_closed(files: Files, folder: str) -> bool:
    """Whether this user may not look into a folder, or not at what is in it, or what served it is gone:
    Python passes over it. Else nothing is said of it."""
    try:
        files.names(folder)
        files.stat(f"{folder}/__init__.py")
    except CannotTell as unknown:
        return isinstance(unknown.__cause__, PermissionError) or has_ended(unknown)
    return False


def first_barrier(files: Files, path: str, identity: Identity) -> Optional[str]:
    """The first folder on the way to a path which its mode surely keeps this user from entering."""
    parts = path.strip("/").split("/")
    folders: dict[str, None] = {}
    for end in range(1, len(parts) + 1):
        # A link leads through other folders than those it names: the real ones above each part count.
        above = ""
        for part in (files.real("/" + "/".join(parts[:end])) or "/").split("/")[:-1]:
            above = f"{above}/{part}".replace("//", "/") or "/"
            folders[above] = None
    for folder in folders:
        entry = files.lstat(folder)
        if entry is not None and entry.is_dir and identity.kept_from(entry, ENTER):
            return folder
    return None


def may_make(entry: PathStatus, identity: Identity, mount: Optional[Mount] = None) -> Optional[bool]:
    """Whether this user may make files in a folder; None where that cannot be told from here: an access
    list may allow it, or a server may take root's rights away.

    A mode with the group's write bit may be the mask of such a list, which a mode does not show.
    """
    if mount is not None and mount.read_only:
        return False
    if identity.is_root and entry.is_dir and mount is not None and mount.kind.startswith("nfs"):
        return entry.mode & 0o003 == 0o003 or None
    if not entry.is_dir or identity.may_write(entry):
        return entry.is_dir
    return None if entry.uid != identity.euid and entry.mode & 0o030 == 0o030 else False
