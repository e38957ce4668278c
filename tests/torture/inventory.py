"""What is there: every segment, every file, socket and folder, every process; read without npudoctor's help.

A thing is known by what no other thing can have: a socket by its inode and the nanosecond of its making, as
inodes are given again at once; a segment by its shmid, which carries a sequence number.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from tests.real.sysv import Segment, segments

Identity = tuple[object, ...]
CHURN_SIZE = 2 << 30  # of the segments that the hostile user makes and removes all the time
CHURN = ("churn", "cache_server_p6")  # in the names of all that it makes and removes in the file system


@dataclass(frozen=True)
class Thing:
    """Something that is there; `state` is what must not change, `where` what may for some."""

    identity: Identity
    state: tuple[object, ...]
    where: str


Inventory = dict[Identity, Thing]


def inventory(places: Iterable[Path], hostile: int) -> Inventory:
    """All segments, and all below these places, but for what the hostile user churns."""
    found = [*_segments(hostile), *(thing for place in places for thing in _below(place))]
    return {thing.identity: thing for thing in found}


def _segments(hostile: int) -> Iterator[Thing]:
    for row in segments().values():
        if (row.cuid, row.size) != (hostile, CHURN_SIZE):
            yield segment(row)


def segment(row: Segment) -> Thing:
    """One segment; who is attached, and when somebody was, may change."""
    state = (row.key, row.perms, row.size, row.cpid, row.uid, row.gid, row.cuid, row.cgid, row.ctime)
    return Thing(("segment", row.shmid), state, f"segment {row.shmid}")


def _below(place: Path) -> Iterator[Thing]:
    for folder, folders, files in os.walk(place):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            if not any(word in path for word in CHURN):
                try:
                    yield file(path)
                except OSError:
                    continue  # moved while we look: then it is protected from the next look on


def file(path: str) -> Thing:
    """One entry: a link with its target, a file with its content. A folder is known by its path too, as its
    times change with what is in it."""
    seen = os.lstat(path)
    rights = (stat.S_IFMT(seen.st_mode), stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid)
    if stat.S_ISDIR(seen.st_mode):
        return Thing(("folder", path, seen.st_dev, seen.st_ino), rights, path)
    content = ""
    if stat.S_ISREG(seen.st_mode):
        content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    elif stat.S_ISLNK(seen.st_mode):
        content = os.readlink(path)
    return Thing(("file", seen.st_dev, seen.st_ino, seen.st_mtime_ns), (*rights, content), path)


@dataclass
class Truth:
    """What the scene knows: all that was ever there, and which of it npudoctor may take away.

    Whatever is not known to be dead and allowed is protected, also what the scene forgot.
    """

    known: Inventory = field(default_factory=dict)
    mortal: set[Identity] = field(default_factory=set)
    swept: set[Identity] = field(default_factory=set)  # gone by somebody else's hand
    moving: bool = False  # the hostile user renames what it may
    blind: str = "/nowhere/"  # its own folder, which comes and goes

    def learn(self, now: Inventory) -> None:
        """New things are protected from now on."""
        for identity, thing in now.items():
            self.known.setdefault(identity, thing)

    def wrongs(self, now: Inventory, killed: bool = False) -> list[str]:
        """Every difference that is not explained. A removal that was killed may have taken the socket of a
        server that had just started from its name: the next one gives it back."""
        return [said for identity in self.known for said in self._wrong(identity, now.get(identity), killed)]

    def _wrong(self, identity: Identity, now: Optional[Thing], killed: bool) -> Iterator[str]:
        before = self.known[identity]
        if identity in self.mortal or identity in self.swept or f"{before.where}/".startswith(self.blind):
            return
        if now is None:
            yield f"vanished: {before}"
        elif now.state != before.state:
            yield f"changed: {before} is now {now}"
        elif now.where != before.where and not self.moving and not (killed and _parked(before, now)):
            yield f"moved: {before} is now {now.where}"


def _parked(before: Thing, now: Thing) -> bool:
    folder, _slash, name = before.where.rpartition("/")
    return now.where.startswith(f"{folder}/.{name}.npudoctor.")
