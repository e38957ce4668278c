"""Spreads the reading of many files over all cores. Processes, as a scan holds the interpreter's lock."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import struct
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Callable, Optional

from npudoctor.core import forked
from npudoctor.core.messages import _
from npudoctor.explain.reading.opening import Opener, local
from npudoctor.explain.reading.reading import PART, PARTS, Task, failed, read, tasks_of
from npudoctor.explain.reading.sources import over
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.scanning.matching import Matcher, Plain
from npudoctor.explain.signatures.table import Table

GRACE = 1.0  # seconds in which a process says what it had read when the time was over
_SMALL = 256 << 10
_GROUP = 8 << 20  # so many bytes are handed to a process at a time
_FILES = 128  # or so many files
_WORTH = 16 << 20  # less is read sooner than processes are started
_MOST = 32  # processes; disks are busy long before
_NUMBER = struct.Struct("=I")
Progress = Callable[[int, int], None]


def scanned(
    table: Table,
    matcher: Matcher,
    logs: Sequence[Log],
    processes: Optional[int] = None,
    progress: Optional[Progress] = None,
    until: float = math.inf,
) -> list[Evidence]:
    """What the logs say, in their order. All is read in children, the newest first: they may hang."""
    tasks, cut = tasks_of(logs, until)
    tasks.sort(key=lambda task: -logs[task.number].written)
    groups = list(_groups(logs, tasks))
    count = min(processes or _count(logs, tasks), len(groups), _MOST)
    done: dict[int, Evidence] = {}
    bar = _Bar(progress, logs, tasks)
    for found in _parallel(_Work(table, matcher, logs, tasks, until), groups, count, until + GRACE):
        done.update(found)
        bar.add(found)
    # What a process was reading that died is read again, one by one and without what it may have died of.
    groups = [range(number, number + 1) for number in range(len(tasks)) if number not in done]
    if groups and time.monotonic() < until:
        work = _Work(table, Plain(table), logs, tasks, until)
        for found in _parallel(work, groups, min(count, len(groups)), until + GRACE):
            done.update(found)
            bar.add(found)
    late = time.monotonic() >= until
    whole = _joined(logs, tasks, done, cut, over() if late else _("the process reading it died"))
    for one in whole:
        one.number_in_file()
    return whole


class _Work:
    """All that a process needs to know, which it has from its parent."""

    def __init__(
        self, table: Table, matcher: Matcher, logs: Sequence[Log], tasks: Sequence[Task], until: float
    ) -> None:
        self._table, self._matcher, self._logs, self._tasks = table, matcher, logs, tasks
        self._until = until
        self._opener = Opener()

    def of(self, numbers: range) -> Iterator[list[tuple[int, Evidence]]]:
        """What the tasks of a group say: many small ones together, but nothing is held back while one is read
        that may take long, or for ever."""
        found: list[tuple[int, Evidence]] = []
        for number in numbers:
            if time.monotonic() > self._until:
                break
            task = self._tasks[number]
            log = self._logs[task.number]
            if found and not self._quick(log):
                yield found
                found = []
            one = read(self._table, self._matcher, log, task, self._opener, self._until)
            found.append((number, one))
        yield found

    def _quick(self, log: Log) -> bool:
        """Whether a file is small, not packed, and on a file system that asks nobody."""
        known = log.known is not None and log.known[0] in local()
        return known and log.size <= _SMALL and not log.path.endswith(".gz")


def _parallel(
    work: _Work, groups: Sequence[range], count: int, until: float
) -> Iterator[list[tuple[int, Evidence]]]:
    """What the tasks say, as it comes; those of a process that died, or was late, are missing."""
    todo, fill = os.pipe()
    os.set_blocking(fill, False)
    left = list(range(len(groups)))[::-1]
    children: dict[int, int] = {}
    poll = select.poll()
    try:
        if _feed(fill, left):
            os.close(fill)
            fill = -1
        for _one in range(count):
            pid, reading = forked.start(partial(_take, work, groups, todo, fill))
            children[reading] = pid
            poll.register(reading, select.POLLIN)
        while children and (wait := until - time.monotonic()) > 0:
            for reading, _event in poll.poll(min(wait, 1e6) * 1000):
                try:
                    yield forked.received(reading, until)[1]
                except forked.Late:
                    poll.unregister(reading)
                    _ended(children.pop(reading), reading)
            if fill >= 0 and _feed(fill, left):
                os.close(fill)
                fill = -1
    finally:
        for pid in children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for reading, pid in children.items():
            _ended(pid, reading)
        os.close(todo)
        if fill >= 0:
            os.close(fill)


def _feed(fill: int, left: list[int]) -> bool:
    """Write numbers of groups into the pipe from which all take theirs; whether that was the last."""
    while left:
        try:
            os.write(fill, _NUMBER.pack(left[-1]))
        except BlockingIOError:
            return False
        left.pop()
    return True


def _take(work: _Work, groups: Sequence[range], todo: int, fill: int, writing: int) -> None:
    """In a child: take group after group until there is none."""
    forked.heed()
    if fill >= 0:
        os.close(fill)
    while number := os.read(todo, _NUMBER.size):
        for items in work.of(groups[_NUMBER.unpack(number)[0]]):
            forked.send(writing, forked.ITEM, items)


def _ended(pid: int, reading: int) -> None:
    os.close(reading)
    forked.end(pid)


def _groups(logs: Sequence[Log], tasks: Sequence[Task]) -> Iterator[range]:
    """Tasks that lie together and are worth to be handed over."""
    start = size = 0
    for number, task in enumerate(tasks):
        size += _size(logs, task)
        if size >= _GROUP or number + 1 - start >= _FILES:
            yield range(start, number + 1)
            start, size = number + 1, 0
    if start < len(tasks):
        yield range(start, len(tasks))


def _size(logs: Sequence[Log], task: Task) -> int:
    return logs[task.number].size if task.end is None else task.end - task.start


def _joined(
    logs: Sequence[Log],
    tasks: Sequence[Task],
    done: Mapping[int, Evidence],
    cut: Container[int],
    missing: str,
) -> list[Evidence]:
    """The parts of each file as one, up to the first that is missing: lines behind it have no number."""
    whole: list[Optional[Evidence]] = [None] * len(logs)
    ended = set()
    for number, task in enumerate(tasks):
        part = done.get(number)
        mine = whole[task.number]
        if task.number in ended:
            continue
        if part is None:
            ended.add(task.number)
            if mine is None:
                whole[task.number] = failed(logs[task.number].path, missing)
            else:
                mine.problem = mine.problem or missing
        elif mine is None:
            whole[task.number] = part
        else:
            mine.join(part)
        if part is not None and task.end is not None and part.bytes < task.end - task.start:
            ended.add(task.number)
    for number in range(len(logs)):
        one = whole[number]
        if one is not None and number in cut:
            limit = PARTS * PART >> 30
            one.problem = one.problem or _("larger than {limit} GiB: the rest is not read", limit=limit)
    return [one for one in whole if one is not None]


class _Bar:
    """Says how far the reading is."""

    def __init__(self, progress: Optional[Progress], logs: Sequence[Log], tasks: Sequence[Task]) -> None:
        self._progress, self._logs, self._tasks = progress, logs, tasks
        self._done, self._total = 0, sum(_size(logs, task) for task in tasks)

    def add(self, found: Sequence[tuple[int, Evidence]]) -> None:
        """Take in what was read."""
        self._done += sum(_size(self._logs, self._tasks[number]) for number, _one in found)
        if self._progress is not None:
            self._progress(self._done, self._total)


def _count(logs: Sequence[Log], tasks: Sequence[Task]) -> int:
    """How many processes are worth to be started."""
    total = sum(_size(logs, task) for task in tasks)
    return _cores() if total >= _WORTH or len(logs) >= 4 * _FILES else 1


def _cores() -> int:
    return len(os.sched_getaffinity(0))
