"""Machines on which compile-cache says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npudoctor.checks.cann.compile_cache import compile_cache
from npudoctor.testing import Asked, Content, Node, ask, fake_host, folder, process_files, unreadable

NOW = 1_800_000_000.0
CACHE = "/data/cache"
LOCK = f"{CACHE}/add/build.lock"
LOCAL = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
NFS = "22 21 0:40 / /data rw - {kind} server:/data rw,vers={vers},{more}\n"


def lock(age: float = 7200.0, path: str = LOCK) -> dict[str, Content]:
    """The empty file of a build that began so long ago."""
    return {path: Node(permissions=0o600, mtime=NOW - age)}


def judged(files: dict[str, Content], table: str = LOCAL, **more: Any) -> Asked:
    """The answer where these files and mounts are; by default MindSpore's cache is in CACHE."""
    more.setdefault("variables", {"MS_COMPILER_CACHE_PATH": CACHE})
    around: dict[str, Content] = {"/proc/self/mountinfo": table, **process_files(1, "systemd", parent=0)}
    return ask(compile_cache, fake_host({**around, **files}, now=NOW, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judged({}, variables={})
    yield judged(lock())
    yield judged(lock(60))
    yield judged({**lock(), **process_files(70, descriptors={3: LOCK})})
    for path in (CACHE, "cache", "/gone"):
        table = LOCAL + NFS.format(kind="nfs", vers="3", more="hard")
        yield judged({CACHE: folder()}, table, variables={"ASCEND_CACHE_PATH": path})
    yield judged({CACHE: folder()}, euid=1000, user="alice")
    yield judged({"/data": unreadable()}, euid=1000, user="alice")
    yield judged({CACHE: folder()}, LOCAL + "22 21 0:40 / /data ro - tmpfs tmpfs ro\n")
    yield judged({CACHE: folder()}, LOCAL + NFS.format(kind="nfs4", vers="4.2", more="hard"))
    yield judged(lock(-60))
