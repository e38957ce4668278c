"""Which files of what was named are logs to be read; what is not read is said."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from npudoctor.frozen import dataclass
from npudoctor.messages import _, strerror

# Never a log, and often huge; anything else that is binary is seen by its first bytes.
_NO_LOGS = tuple(
    ".pt .pth .ckpt .safetensors .bin .npz .npy .so .o .a .pyc .db .sqlite .h5 .onnx .air .om .mindir .png"
    " .jpg .jpeg .whl .run .deb .rpm .tar .zip .tgz .jar .parquet .arrow .mindrecord .tfrecord .idx".split()
)


@dataclass(frozen=True)
class Log:
    """A file to be read. `year`: when it was written last; `named`: by the caller, who wants it read."""

    path: str
    size: int
    year: int
    named: bool = False


class Walk:
    """Collects the files below what was named: each once, whatever links there are."""

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self.left_out: list[str] = []  # what is certainly no log
        self.problems: list[tuple[str, str]] = []  # path and reason: of these something may be missing
        self.notes: list[tuple[str, str]] = []  # the same, of what holds no log of its own
        self._folders: set[tuple[int, int]] = set()
        self._files: set[tuple[int, int]] = set()

    def folder(self, path: str) -> None:
        """All logs below a folder, in the order of their names."""
        todo = [path]
        while todo:
            here = todo.pop()
            try:
                found = os.stat(here)
                if (found.st_dev, found.st_ino) in self._folders:
                    if os.path.islink(here):
                        self.notes.append((here, _("a link to a folder that is read anyway: not followed")))
                    continue
                self._folders.add((found.st_dev, found.st_ino))
                entries = sorted(os.scandir(here), key=lambda entry: _natural(entry.name))
            except OSError as error:
                self.problems.append((here, strerror(error.errno)))
                continue
            below = [entry.path for entry in entries if self._entry(entry)]
            todo += reversed(below)

    def _entry(self, entry: os.DirEntry[str]) -> bool:
        """Take in one entry; whether it is a folder."""
        try:
            found = entry.stat()
        except OSError as error:
            nowhere = entry.is_symlink() and error.errno in (errno.ENOENT, errno.ELOOP)
            (self.notes if nowhere else self.problems).append((entry.path, strerror(error.errno)))
            return False
        if stat.S_ISDIR(found.st_mode):
            return True
        if not stat.S_ISREG(found.st_mode):
            self.notes.append((entry.path, _("no regular file: not read")))
        elif entry.name.endswith(_NO_LOGS):
            self.left_out.append(entry.path)
        else:
            self.file(entry.path, found)
        return False

    def file(self, path: str, found: os.stat_result, named: bool = False) -> None:
        """Take in a file, unless it was already."""
        key = (found.st_dev, found.st_ino)
        if key not in self._files:
            self._files.add(key)
            self.logs.append(Log(path, found.st_size, _year(found.st_mtime), named))


def _year(seconds: float) -> int:
    import time

    return time.localtime(seconds).tm_year


def _natural(name: str) -> list[tuple[int, str]]:
    """worker_2 before worker_10."""
    parts: Iterable[str] = _parts(name)
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in parts]


def _parts(name: str) -> list[str]:
    import re

    return [part for part in re.split(r"(\d{1,18})", name) if part]
