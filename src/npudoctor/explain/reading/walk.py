"""Walks named folders for logs to read, and notes what is not read.

Nothing leads out of a named folder: every step is taken from a directory that is held open (see `opening`),
and a link is only looked at to say where it leads. What lies below the folder is read anyway.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.explain.reading import opening
from npudoctor.explain.reading.beneath import NamedFolder, OpenFolder, answers_in_time, kernel_folders
from npudoctor.explain.reading.opening import Identity, UnreadableLog, identity_of
from npudoctor.explain.scanning.ranks import rank_of_path

ENTRIES = 250_000  # so many are looked at; of more it is only said that they are there
# Folders in folders; deeper ones are said to be unread.
_DEEP = 64
SECONDS = 2.0  # within which a mounted file system has to answer
_STEP = 1000  # entries after which what was found can be handed over
# Never a log, and often huge; anything else that is binary is seen by its first bytes.
_NO_LOGS = tuple(
    ".pt .pth .ckpt .safetensors .bin .npz .npy .so .o .a .pyc .db .sqlite .h5 .onnx .air .om .mindir .png"
    " .jpg .jpeg .whl .run .deb .rpm .tar .zip .tgz .jar .parquet .arrow .mindrecord .tfrecord .idx".split()
)
# How logs are called, also those that were rotated or compressed.
_LOG = pattern(r"(?:\.(?:log|out|err|txt)|log\.\d+|(?:^|/)std(?:out|err))(?:[._-]\w+)*$")


@dataclass(frozen=True)
class Log:
    """A file to be read. `year`: when it was written last, `written` to the second; `named`: by the caller,
    who wants it read; else it lies at `below` in the named folder `base`. `known`: what the walk saw;
    `begin`: what lies before this place is not read."""

    path: str
    size: int
    year: int
    is_named: bool = False
    written: float = 0.0
    base: str = ""
    relative_path: str = ""
    identity: Optional[Identity] = None
    begin: int = 0


class LogWalk:
    """Collects the files below what was named: each once, whatever links there are. `since`: only what was
    written since then."""

    def __init__(self, since: float = -math.inf) -> None:
        self.logs: list[Log] = []
        self.left_out: list[str] = []  # what is certainly no log
        self.problems: list[tuple[str, str]] = []  # path and reason: of these something may be missing
        self.notes: list[tuple[str, str]] = []  # the same, of what holds no log of its own
        self.more = 0  # entries that were not looked at
        self.older = 0  # files that are not read, as there are so many newer ones
        self._since = since
        self._looked = 0
        self._folders: set[Identity] = set()
        self._files: set[Identity] = set()

    def walk_folder(self, path: str) -> None:
        """All logs below a folder, in the order of their names."""
        for _step in self.walk_steps(path):
            pass

    def walk_steps(self, path: str) -> Iterator[None]:
        """The same, step by step: what was found so far can be taken between them."""
        try:
            base = opening.open_folder(path)
        except OSError as error:
            self.problems.append((path, strerror(error.errno)))
            return
        except UnreadableLog as why:
            self.problems.append((path, str(why)))
            return
        try:
            below = NamedFolder(path, base)
            todo: list[tuple[str, ...]] = [()]
            while todo:
                parts = todo.pop()
                folders: list[tuple[str, ...]] = []
                yield from self._walk_directory(below, parts, folders)
                todo += reversed(folders)
        finally:
            os.close(base)

    def merge(self, other: LogWalk) -> None:
        """Take in what another walk found."""
        self.logs += other.logs
        self.left_out += other.left_out
        self.problems += other.problems
        self.notes += other.notes
        self.more += other.more

    def take_new(self) -> LogWalk:
        """What was found since the last time this was asked."""
        part = LogWalk(self._since)
        part.merge(self)
        self.logs, self.left_out, self.problems, self.notes, self.more = [], [], [], [], 0
        return part

    def _walk_directory(
        self, below: NamedFolder, parts: tuple[str, ...], folders: list[tuple[str, ...]]
    ) -> Iterator[None]:
        """Take in one folder; the folders in it are added to `folders`."""
        path = below.path(parts)
        try:
            here = OpenFolder(below, parts)
        except OSError as error:
            self.problems.append((path, strerror(error.errno)))
            return
        try:
            key = identity_of(here.status)
            if here.status.st_dev in opening.pseudo_devices() or key in kernel_folders():
                self._note_pseudo(path, not parts)
            elif key not in self._folders:
                self._folders.add(key)
                with os.scandir(here.listing) as listing:
                    entries = list(itertools.islice(listing, ENTRIES - self._looked))
                    self._looked += len(entries)
                    self.more += sum(1 for _entry in listing)
                entries.sort(key=lambda entry: _natural(entry.name))
                for number, entry in enumerate(entries):
                    if self._take_entry(here, entry):
                        folders.append((*parts, entry.name))
                    if number % _STEP == _STEP - 1:
                        yield
        except OSError as error:
            self.problems.append((path, strerror(error.errno)))
        finally:
            here.close()
        yield

    def _note_pseudo(self, path: str, is_named: bool) -> None:
        (self.problems if is_named else self.notes).append(
            (path, _("/proc, /sys and /dev hold no logs: not read"))
        )

    def _take_entry(self, here: OpenFolder, entry: os.DirEntry[str]) -> bool:
        """Take in one entry; whether it is a folder to be entered."""
        path = here.below.path((*here.parts, entry.name))
        if entry.name in here.mounts and not self._answers(here, entry.name, path):
            return False
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            self.problems.append((path, strerror(error.errno)))
            return False
        if stat.S_ISDIR(status.st_mode):
            if len(here.parts) < _DEEP:
                return True
            self.problems.append((path, _("nested too deeply: not read")))
        elif stat.S_ISLNK(status.st_mode):
            self._note_link(here, entry.name, path)
        elif not stat.S_ISREG(status.st_mode):
            self.notes.append((path, _("not a regular file: not read")))
        elif status.st_dev != here.status.st_dev and status.st_dev in opening.pseudo_devices():
            self._note_pseudo(path, False)
        elif path.endswith(_NO_LOGS):
            self.left_out.append(path)
        elif _is_planted(here.status, status):
            self.problems.append(
                (
                    path,
                    _("a hard link to a file that belongs to uid {uid}: not read", uid=status.st_uid),
                )
            )
        elif status.st_mtime >= self._since:
            self.add_file(path, status, base=here.below.base, below="/".join((*here.parts, entry.name)))
        return False

    def _answers(self, here: OpenFolder, name: str, path: str) -> bool:
        """Whether what is mounted there can be entered."""
        kind = here.mounts[name]
        if kind == "autofs":
            self.problems.append((path, _("an automount point that is not mounted: not read")))
        elif kind in opening.UNREAL:
            self._note_pseudo(path, False)
        elif not answers_in_time(here.listing, name, SECONDS):
            self.problems.append(
                (
                    path,
                    _(
                        "the file system mounted there does not answer within {seconds:g} s: not read",
                        seconds=SECONDS,
                    ),
                )
            )
        else:
            return True
        return False

    def _note_link(self, here: OpenFolder, name: str, path: str) -> None:
        """Say of a link what may be missing without it: what it leads to below the folder is read anyway."""
        try:
            target = os.readlink(name, dir_fd=here.listing)
            leads_to_folder = here.below.resolve_link(here.parts, target)
        except OSError as error:
            is_dangling = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
            (self.notes if is_dangling else self.problems).append((path, strerror(error.errno)))
            return
        if leads_to_folder is None and target.endswith(_NO_LOGS):
            self.left_out.append(path)
        elif leads_to_folder is None:
            kept_elsewhere = _is_log_name(name) or _is_log_name(target)
            (self.problems if kept_elsewhere else self.notes).append(
                (path, _("a link to {target}, outside the folder: not followed", target=target))
            )
        elif leads_to_folder:
            self.notes.append((path, _("a link to a folder that is read anyway: not followed")))

    def add_file(
        self, path: str, status: os.stat_result, is_named: bool = False, base: str = "", below: str = ""
    ) -> None:
        """Take in a file, unless it was already."""
        key = identity_of(status)
        if key not in self._files:
            self._files.add(key)
            written = status.st_mtime
            self.logs.append(
                Log(
                    path, status.st_size, time.localtime(written).tm_year, is_named, written, base, below, key
                )
            )


def _is_log_name(path: str) -> bool:
    """Whether a link of this name or target stands for a log of the folder that is kept elsewhere. Any other
    link out of it (latest -> /var/log) is for people's convenience: it is not of what was named."""
    return bool(_LOG.search(path)) or rank_of_path(path) is not None


def _is_planted(folder: os.stat_result, file: os.stat_result) -> bool:
    """Whether a file may have been put there by somebody who may not read it, as another name of it."""
    foreign = folder.st_uid not in (0, os.geteuid())
    shared = bool(folder.st_mode & 0o002)
    if file.st_nlink < 2 or file.st_mode & 0o004 or not (foreign or shared):
        return False
    return shared or file.st_uid != folder.st_uid


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts worker_2 before worker_10; apart, as it is a key."""
    parts = [part for part in re.split(r"(\d{1,18})", name) if part]
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in parts]
