"""What this user may do with a folder, judged from modes and ids: nothing is written to try it."""

from __future__ import annotations

import stat
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host.errors import CannotTell
from npudoctor.host.files import Entry, Files
from npudoctor.host.identity import Identity


@dataclass(frozen=True)
class Place:
    """A folder as it is, or the nearest one above it that exists. `there`: whether it is itself."""

    path: str
    entry: Entry
    there: bool

    @property
    def label(self) -> str:
        """Its path, owner and mode, for evidence."""
        return f"{self.path} uid={self.entry.uid} gid={self.entry.gid} mode={stat.filemode(self.entry.mode)}"


def nearest(files: Files, path: str) -> Place:
    """The folder that a path names, or in which it would be made; CannotTell when it cannot be looked at."""
    here = path.rstrip("/") or "/"
    while True:
        entry = files.stat(here)
        if entry is not None or here == "/":
            break
        here = here.rpartition("/")[0] or "/"
    if entry is None:
        raise FileNotFoundError(here)  # there is no machine without a root
    return Place(here, entry, here == (path.rstrip("/") or "/"))


def closed(files: Files, folder: str) -> bool:
    """Whether this user may not look into a folder, or not at what is in it; else nothing is said of it."""
    try:
        files.names(folder)
        files.stat(f"{folder}/__init__.py")
    except CannotTell as unknown:
        return isinstance(unknown.__cause__, PermissionError)
    return False


def may_make(entry: Entry, identity: Identity) -> Optional[bool]:
    """Whether this user may make files in a folder; None where an access list may allow it.

    A mode with the group's write bit may be the mask of such a list, which a mode does not show.
    """
    if not entry.is_dir or identity.may_write(entry):
        return entry.is_dir
    return None if entry.uid != identity.euid and entry.mode & 0o030 == 0o030 else False
