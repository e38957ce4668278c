"""The files of POSIX shared memory that training leaves in /dev/shm: by which library, which process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.host.fs.files import Files, PathStatus

FOLDER = "/dev/shm"  # noqa: S108  (looked at, never written)
NAMES = 200_000  # names of one look: a job that leaks may leave more
_INSIDE = ("hccl_sync",)  # folders of libraries, whose files are theirs

# The library, how a name begins, and what ends the pid of its maker in it.
_WITH_PID = (
    ("PyTorch", "torch_", "_"),
    ("PaddlePaddle", "paddle_", "_"),
    ("MindSpore", "mindspore_", "_"),
    ("Python", "pym-", "-"),
)
# multiprocessing.shared_memory and SemLock, NCCL: random characters, at least so many.
_WITHOUT = (("Python", "psm_", 8), ("Python", "sem.mp-", 1), ("NCCL", "nccl-", 6))


@dataclass(frozen=True)
class SharedFile:
    """One file. `pid`: of the process that made it, in its own namespace; None where the name does not
    contain it.

    `folder`: the uid that owns the library's folder in which it lies; None for a file right in /dev/shm.
    """

    path: str
    entry: PathStatus
    library: str
    pid: Optional[int] = None
    folder: Optional[int] = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def find_maker(name: str) -> Optional[tuple[str, Optional[int]]]:
    """The library that gives such a name, and the pid in it (None without one); None for any other name."""
    for library, prefix, end in _WITH_PID:
        pid, separator, rest = name[len(prefix) :].partition(end)
        if name.startswith(prefix) and separator and rest and pid.isascii() and pid.isdecimal():
            return library, int(pid)
    for library, prefix, least in _WITHOUT:
        if name.startswith(prefix) and len(name) >= len(prefix) + least:
            return library, None
    return ("HCCL", None) if name[:4] in ("hccl", "Hccl") else None


def find_shared_files(files: Files) -> Iterator[SharedFile]:
    """The files as they are now; CannotTell when /dev/shm cannot be listed.

    Only on the file system of /dev/shm: what a link or a mount leads to is no shared memory.
    """
    place = files.stat(FOLDER)
    for name in files.names(FOLDER, NAMES) if place else ():
        made = find_maker(name)
        if made is None or place is None:
            continue
        paths, owner = [f"{FOLDER}/{name}"], None
        inside = files.lstat(paths[0]) if name in _INSIDE else None
        # A link, or a mount, in the place of the library's folder.
        if inside is not None and (not inside.is_dir or inside.dev != place.dev):
            continue
        if inside is not None:
            paths, owner = [f"{FOLDER}/{name}/{inner}" for inner in files.names(paths[0], NAMES)], inside.uid
        for path in paths:
            entry = files.lstat(path)
            if entry is not None and entry.is_file and entry.dev == place.dev:
                yield SharedFile(path, entry, *made, owner)
