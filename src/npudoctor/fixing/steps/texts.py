"""Steps that write a whole small text file, and that put back what was there, as data."""

from __future__ import annotations

import os
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fixing.steps.shell import print_command, quote
from npudoctor.host import CannotTell, Host
from npudoctor.host.fs.files import PathStatus

LIMIT = 1 << 20  # bytes of a text that is replaced
KEPT = "kept"  # the folder of the copies, beside the journal


def digest(content: bytes) -> str:
    """The SHA-256 of a content, in hex."""
    import hashlib  # most runs write no file

    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class FileState:
    """A file as it was when it was read."""

    sha256: str
    device: int
    inode: int
    mode: int
    uid: int
    gid: int

    @classmethod
    def of(cls, content: bytes, entry: PathStatus) -> FileState:
        """The state of a file with this content."""
        return cls(digest(content), entry.dev, entry.ino, entry.permissions, entry.uid, entry.gid)

    @property
    def lasting(self) -> tuple[object, ...]:
        """The part that a restored file has again; its inode differs."""
        return (self.sha256, self.mode, self.uid, self.gid)


@dataclass(frozen=True)
class PutBack:
    """Undo a WriteFile. Guard: the file is still the one that was written, by its sha256.

    `was` is what was there, of which `kept` is the copy; without it there was nothing.
    """

    path: str
    sha256: str
    was: Optional[FileState] = None
    kept: Optional[str] = None

    def lines(self) -> tuple[str, ...]:
        if self.was is None or self.kept is None:
            return (f"rm -- {quote(self.path)}",)
        return (f"cp -- {quote(self.kept)} {quote(self.path)}",)


@dataclass(frozen=True)
class WriteFile:
    """Write a text file as a whole. Guard: what was there is still there, unchanged (None: nothing was).

    `mode` is for a new file; one that was there keeps its mode and owner. `kept` is where its copy will lie.
    """

    path: str
    content: str
    mode: int = 0o644
    was: Optional[FileState] = None
    kept: Optional[str] = None

    @classmethod
    def at(cls, host: Host, path: str, content: str, mode: int = 0o644) -> WriteFile:
        """The step for what is at the path now; CannotTell where that cannot be read."""
        was = file_state(host, path)
        return cls(path, content, mode, was, backup_path(host, was.sha256) if was else None)

    @property
    def raw(self) -> bytes:
        """The content as it will be on disk."""
        return self.content.encode("utf-8", "surrogateescape")

    def lines(self) -> tuple[str, ...]:
        path = quote(self.path)
        write = f"{print_command(self.content)} > {path}"
        if self.was is None or self.kept is None:
            return (write, f"chmod {self.mode:o} {path}")
        return (f"install -D -m 600 -- {path} {quote(self.kept)}", write)

    def back(self) -> PutBack:
        """The step that takes it back."""
        return PutBack(self.path, digest(self.raw), self.was, self.kept)

    def undo_lines(self) -> tuple[str, ...]:
        return self.back().lines()


def backup_path(host: Host, sha256: str) -> str:
    """The path of the copy of a file with this content."""
    # By content: equal files have one copy, and a copy cannot be confused with another.
    return os.path.join(host.records.directory, KEPT, sha256)


def file_state(host: Host, path: str) -> Optional[FileState]:
    """The state of the file at a path of the running machine; None for nothing. CannotTell for what is no
    regular file.
    """
    entry = host.running_files.lstat(path)
    if entry is None:
        return None
    content = host.running_files.read(path, LIMIT + 1) if entry.is_file else None
    if content is None:
        raise CannotTell(_("{path} is not a regular file", path=path))
    if len(content) > LIMIT:
        raise CannotTell(_("{path} is larger than {most} bytes", path=path, most=LIMIT))
    return FileState.of(content, entry)
