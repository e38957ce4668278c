"""Which logs of training jobs are here, newest first: what `explain` reads when nothing is named."""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Callable, Optional

from npudoctor.core import forked
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.explain.scanning.ranks import rank_of_path

_FOLDERS = (
    ("msrun", "msrun_log"),
    ("msrun", "output/msrun_log"),
    ("torchrun", "torchelastic"),
    ("torchrun", "log"),
    ("torchrun", "logs"),
)
# Where logs of other launchers lie, and how they are called.
LOOSE = "log"
_LOOSE = ("log", "logs")
_SLURM, _NOHUP = "Slurm", "nohup"
_HERE = (LOOSE, _SLURM, _NOHUP)  # the kinds of single logs that one run may have left beside each other
_RUN = 3600.0  # seconds: what ends with the same run is written last within these
_NUMBER = pattern(r"\d+")
_ENDINGS = (".log", ".out", ".err")
_DEEP = 4  # folders below one of these that are looked at
_MANY = 5000  # entries at most: it is a look, not a search
_ANSWERED = 0.3  # seconds to hand over what was found beside what hangs


@dataclass(frozen=True)
class LogPlace:
    """A log or a folder of logs, of which kind it is, and when something in it was written last."""

    path: str
    kind: str
    written: float


@dataclass(frozen=True)
class LogPlaces:
    """What was found, newest first, and what did not answer."""

    places: tuple[LogPlace, ...]
    silent: tuple[str, ...]


def find_newest_logs(variables: Mapping[str, str], seconds: float = forked.PATIENCE) -> LogPlaces:
    """The logs of this user and of this folder, newest first; what does not answer in time is said."""
    plogs = variables.get("ASCEND_PROCESS_LOG_PATH") or os.path.join(variables.get("HOME", ""), "ascend/log")
    # Each kind of place is looked at in a child of its own, as any may be on a file system that hangs.
    looks: tuple[tuple[str, Callable[[], Iterator[LogPlace]]], ...] = (
        (plogs, lambda: _find_plogs(plogs)),
        (".", lambda: _find_launcher_logs(".")),
        (".", lambda: _find_slurm_logs(".")),
        (".", lambda: _find_loose_logs(".")),
    )
    places: list[LogPlace] = []
    silent: list[str] = []
    until = time.monotonic() + seconds
    streams = [(label, forked.Child(look)) for label, look in looks]
    for label, child in streams:
        try:
            places += child.items(max(until, time.monotonic() + _ANSWERED))
        except forked.Late:
            silent.append(label)
        except OSError:
            continue
    places.sort(key=lambda place: -place.written)
    return LogPlaces(tuple(places), tuple(silent))


def select_newest_run(places: Sequence[LogPlace]) -> tuple[LogPlace, ...]:
    """Of what was found, newest first, the logs of the newest run: what lies beside the newest and was
    written last within the same hour, and the other ranks of these, whenever that was: the rank that failed
    may have fallen silent long before the others. Of several jobs of Slurm only the newest."""
    newest = places[0]
    if newest.kind not in _HERE:
        return (newest,)
    job = next((_job(place.path) for place in places if place.kind == _SLURM), None)
    beside = [
        place for place in places if place.kind in _HERE and (place.kind != _SLURM or _job(place.path) == job)
    ]
    near = {place for place in beside if newest.written - place.written <= _RUN}
    ranks = {_pattern(place.path) for place in near if rank_of_path(place.path) is not None}
    return tuple(
        place
        for place in beside
        if place in near or _pattern(place.path) in ranks or (place.kind == _SLURM and newest.kind == _SLURM)
    )


def _pattern(name: str) -> str:
    """What the logs of all ranks have in common: their name without its numbers."""
    return _NUMBER.sub("0", name)


def _job(name: str) -> Optional[str]:
    """The number of a job of Slurm: all tasks of an array have it."""
    number = _NUMBER.search(name)
    return number[0] if number else None


def _find_plogs(path: str) -> Iterator[LogPlace]:
    """CANN's own logs. Apart, as each kind of place is looked at in a child of its own."""
    written = _write_time(path) if os.path.isabs(path) else 0.0
    if written:
        yield LogPlace(path, "plog", written)


def _find_launcher_logs(here: str) -> Iterator[LogPlace]:
    """What launchers write in folders of their own."""
    for kind, name in _FOLDERS:
        path = os.path.join(here, name)
        if kind == "torchrun" and not _has_torchrun_logs(path):
            continue
        written = _write_time(path)
        if written:
            yield LogPlace(name, kind, written)


def _has_torchrun_logs(path: str) -> bool:
    """Whether a folder has logs as torchrun writes them: RUN/attempt_0/RANK/stderr.log."""
    try:
        runs = [entry.path for entry in _list_entries(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return False
    return any(os.path.isdir(os.path.join(run, "attempt_0")) for run in [path, *runs])


def _find_slurm_logs(here: str) -> Iterator[LogPlace]:
    """Files, no links: nobody named them, and anybody may have put them there."""
    try:
        for entry in os.scandir(here):
            name = entry.name
            if (name.startswith("slurm-") and name.endswith((".out", ".err"))) or name == "nohup.out":
                kind = _SLURM if name.startswith("slurm-") else _NOHUP
                written = _change_time(entry)
                if written:
                    yield LogPlace(name, kind, written)
    except OSError:
        return


def _find_loose_logs(here: str) -> Iterator[LogPlace]:
    """Other files here that are called as logs are, and folders with such files."""
    for path, written in _logs_in(here):
        # These are found by _find_slurm_logs, under their own kind.
        if not os.path.basename(path).startswith(("slurm-", "nohup.")):
            yield LogPlace(os.path.basename(path), LOOSE, written)
    for name in _LOOSE:
        folder = os.path.join(here, name)
        if os.path.islink(folder) or _has_torchrun_logs(folder):
            continue
        written = max((when for _path, when in _logs_in(folder)), default=0.0)
        if written:
            yield LogPlace(name, LOOSE, written)


def _logs_in(folder: str) -> Iterator[tuple[str, float]]:
    """The files that are called as logs are and are not empty, each with when it was written last."""
    try:
        entries = _list_entries(folder)
    except OSError:
        return
    for entry in entries:
        written = _change_time(entry) if entry.name.endswith(_ENDINGS) else 0.0
        if written and entry.stat(follow_symlinks=False).st_size:
            yield entry.path, written


def _change_time(entry: os.DirEntry[str]) -> float:
    """When a regular file was written last; 0 for what is none, or is gone again. Links are not followed:
    in a folder that others may write they lead anywhere."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return 0.0
    return status.st_mtime if stat.S_ISREG(status.st_mode) else 0.0


def _write_time(path: str) -> float:
    """When something below a folder was written last; 0 when there is nothing."""
    latest, todo, count = 0.0, [(path, 0)], 0
    while todo:
        here, depth = todo.pop()
        try:
            entries = _list_entries(here)
        except OSError:
            continue
        for entry in entries:
            count += 1
            if count > _MANY:
                return latest
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEEP:
                    todo.append((entry.path, depth + 1))
            else:
                latest = max(latest, _change_time(entry))
    return latest


def _list_entries(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        return list(itertools.islice(entries, _MANY + 1))
