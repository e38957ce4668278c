"""Which very object is meant, a file or a process: what must still be so when it is acted upon."""

from __future__ import annotations

from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class FileMark:
    """Which file is meant: its name in its folder, device, inode, size, and mtime in nanoseconds."""

    name: str
    device: int
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class ProcessMark:
    """Which process is meant: its pid, when it began (clock ticks since boot), its control groups."""

    pid: int
    started: int
    cgroups: tuple[str, ...]
