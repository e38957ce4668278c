"""What is to be read of what was named: looked for in children, as any of it may lie on a file system that
does not answer."""

from __future__ import annotations

import itertools
import math
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Optional

from npudoctor.core import forked
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, strerror
from npudoctor.explain.reading import opening
from npudoctor.explain.reading.opening import UnreadableLog
from npudoctor.explain.reading.walk import LogWalk

FOLDER, FILE = 60.0, 600.0  # seconds: of a folder nobody knows what is in it, a file was meant as a whole
FILES = 50_000  # of more files the newest are read
_WALK = 0.5  # the part of the time that looking for files may take
_OFTEN = 0.05  # seconds between what the child hands over
_DIRECTORY, _REGULAR, _PIPE, _NOTHING = "directory", "regular", "pipe", ""


class AbsentInput(Exception):
    """Something that was named is not there, or cannot be looked at: which, and why."""

    def __init__(self, word: str, why: str, missing: bool) -> None:
        super().__init__(word, why, missing)
        self.word, self.why, self.missing = word, why, missing


@dataclass(frozen=True)
class Inputs:
    """The files to be read, in their order, and the pipes; what the walk says of the rest. `seconds`: how
    long reading may take, `until` on the steady clock."""

    walk: LogWalk
    pipes: tuple[str, ...]
    seconds: float
    until: float


def gather_inputs(
    words: Sequence[str], started: float, seconds: Optional[float] = None, since: Optional[float] = None
) -> Inputs:
    """Find the files that the words name; AbsentInput if one of them names nothing.

    With `since` (seconds since the epoch) only files that were written after it are read, and words that are
    missing or do not answer are skipped: then they were not typed by the user.
    """
    patience = min(forked.PATIENCE, seconds or math.inf)
    kinds: list[str] = []
    # For all words together, as each has `patience` for itself.
    late = time.monotonic() + 4 * patience
    while len(kinds) < len(words):
        try:
            for kind in forked.stream(
                partial(_find_kinds, words[len(kinds) :], since is not None), late, patience
            ):
                kinds.append(kind)
        except forked.Late:
            if since is None:
                why = _("does not answer within {seconds:g} s", seconds=patience)
                raise AbsentInput(words[len(kinds)], why, False) from None
            kinds.append(_NOTHING)
    seconds = seconds or (FOLDER if _DIRECTORY in kinds else FILE)
    # What is said must be said in that time, not only read.
    until = started + seconds - min(1.5, seconds / 4)
    files = [word for word, kind in zip(words, kinds) if kind in (_DIRECTORY, _REGULAR)]
    pipes = tuple(word for word, kind in zip(words, kinds) if kind == _PIPE and since is None)
    walk = _walk_all(files, -math.inf if since is None else since, started, until)
    return Inputs(walk, pipes, seconds, until)


def _find_kinds(words: Sequence[str], lenient: bool) -> Iterator[str]:
    """In the child: of which kind each is."""
    for word in words:
        kind = _PIPE
        if word != "-":
            try:
                mode = os.stat(word).st_mode
                kind = _DIRECTORY if stat.S_ISDIR(mode) else _REGULAR if stat.S_ISREG(mode) else _PIPE
            except OSError as error:
                if not lenient:
                    raise AbsentInput(word, strerror(error.errno), not os.path.lexists(word)) from error
                kind = _NOTHING
        yield kind


def _walk_all(words: Sequence[str], since: float, started: float, until: float) -> LogWalk:
    """All files of what was named, each once."""
    whole = LogWalk(since)
    if not words:
        return whole
    limit = started + (until - started) * _WALK
    try:
        for part in forked.stream(lambda: _walk(words, since), limit):
            whole.merge(part)
    except forked.Late:
        text = _("not all files were found within the deadline")
        whole.problems.append((words[0] if len(words) == 1 else "...", text))
    # Of too many files only the newest stay, in their order; how many are left is counted.
    if len(whole.logs) > FILES:
        oldest = sorted(log.written for log in whole.logs if not log.is_named)
        named_count = len(whole.logs) - len(oldest)
        least = oldest[max(0, len(oldest) - max(0, FILES - named_count))] if named_count < FILES else math.inf
        kept_logs = [log for log in whole.logs if log.is_named or log.written >= least][:FILES]
        whole.older = len(whole.logs) - len(kept_logs)
        whole.logs = kept_logs
    return whole


def _walk(words: Iterable[str], since: float) -> Iterator[LogWalk]:
    """In the child: what is found, now and then."""
    walk, handed = LogWalk(since), time.monotonic()
    for word in words:
        try:
            place = opening.open_named(word)
            try:
                status = os.fstat(place)
            finally:
                os.close(place)
        except OSError as error:
            walk.problems.append((word, strerror(error.errno)))
            continue
        except UnreadableLog as why:
            walk.problems.append((word, str(why)))
            continue
        steps: Iterator[None] = iter(())
        if stat.S_ISDIR(status.st_mode):
            steps = walk.walk_steps(word)
        elif status.st_dev in opening.pseudo_devices():
            walk.problems.append((word, _("/proc, /sys and /dev hold no logs: not read")))
        elif stat.S_ISREG(status.st_mode) and status.st_mtime >= since:
            walk.add_file(word, status, is_named=True)
        for _step in itertools.chain(steps, (None,)):
            if time.monotonic() - handed > _OFTEN:
                yield walk.take_new()
                handed = time.monotonic()
    yield walk.take_new()
