"""The System V segments of this IPC namespace, read without npudoctor's help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Segment:
    """One line. rss and swap are left out: they change by themselves."""

    key: int
    shmid: int
    perms: str
    size: int
    cpid: int
    lpid: int
    nattch: int
    uid: int
    gid: int
    cuid: int
    cgid: int
    atime: int
    dtime: int
    ctime: int


def segments() -> dict[int, Segment]:
    """All of them, by shmid."""
    found = {}
    for line in Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()[1:]:
        words = line.split()
        numbers = [int(word) for word in words[3:14]]
        found[int(words[1])] = Segment(int(words[0]), int(words[1]), words[2], *numbers)
    return found
