"""Which logs of training jobs are here, newest first: what `explain` reads when nothing is named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from npudoctor.frozen import dataclass

_FOLDERS = (
    ("msrun", "msrun_log"),
    ("msrun", "output/msrun_log"),
    ("torchrun", "torchelastic"),
    ("torchrun", "log"),
    ("torchrun", "logs"),
)
_DEEP = 4  # folders below one of these that are looked at
_MANY = 5000  # entries at most: it is a look, not a search


@dataclass(frozen=True)
class Place:
    """A log or a folder of logs, of which kind it is, and when something in it was written last."""

    path: str
    kind: str
    written: float


def newest(variables: Mapping[str, str], here: str) -> list[Place]:
    """The logs of this user and of this folder, newest first."""
    found = [*_plogs(variables), *(_runs(here) if here else ()), *(_slurm(here) if here else ())]
    return sorted(found, key=lambda place: -place.written)


def _plogs(variables: Mapping[str, str]) -> Iterator[Place]:
    path = variables.get("ASCEND_PROCESS_LOG_PATH") or os.path.join(variables.get("HOME", ""), "ascend/log")
    written = _written(path) if os.path.isabs(path) else 0.0
    if written:
        yield Place(path, "plog", written)


def _runs(here: str) -> Iterator[Place]:
    for kind, name in _FOLDERS:
        path = os.path.join(here, name)
        if kind == "torchrun" and not _of_torchrun(path):
            continue
        written = _written(path)
        if written:
            yield Place(name, kind, written)


def _of_torchrun(path: str) -> bool:
    """Whether a folder has logs as torchrun writes them: RUN/attempt_0/RANK/stderr.log."""
    try:
        runs = [entry.path for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return False
    return any(os.path.isdir(os.path.join(run, "attempt_0")) for run in [path, *runs])


def _slurm(here: str) -> Iterator[Place]:
    try:
        entries = list(os.scandir(here))
    except OSError:
        return
    for entry in entries:
        name = entry.name
        if (name.startswith("slurm-") and name.endswith((".out", ".err"))) or name == "nohup.out":
            kind = "Slurm" if name.startswith("slurm-") else "nohup"
            written = _changed(entry)
            if written:
                yield Place(name, kind, written)


def _changed(entry: os.DirEntry[str]) -> float:
    """When a file was written last; 0 for what is none, or is gone again."""
    try:
        return entry.stat().st_mtime if entry.is_file() else 0.0
    except OSError:
        return 0.0


def _written(path: str) -> float:
    """When something below a folder was written last; 0 when there is nothing."""
    latest, todo, seen = 0.0, [(path, 0)], 0
    while todo:
        here, depth = todo.pop()
        try:
            entries = list(os.scandir(here))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > _MANY:
                return latest
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEEP:
                    todo.append((entry.path, depth + 1))
            else:
                latest = max(latest, _changed(entry))
    return latest
