"""Spreads the reading of many files over all cores. Processes, as a scan holds the interpreter's lock."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

from npudoctor.explain.evidence import Evidence
from npudoctor.explain.matching import Matcher, Plain
from npudoctor.explain.reading import Task, read, tasks_of
from npudoctor.explain.table import Table
from npudoctor.explain.walk import Log

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

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
) -> list[Evidence]:
    """What the logs say, in their order."""
    tasks = list(tasks_of(list(logs)))
    groups = list(_groups(logs, tasks))
    total = sum(log.size for log in logs)
    count = min(processes or _cores(), len(groups), _MOST)
    work = _Work(table, matcher, logs, tasks)
    done: dict[int, list[Evidence]] = {}
    spread = count > 1 and (processes or total >= _WORTH or len(logs) >= 4 * _FILES)
    if spread:
        for group, found in _parallel(work, groups, count):
            done[group] = found
            _tell(progress, groups, done, total, logs, tasks)
    for group, numbers in enumerate(groups):
        if group not in done:  # also what a process was reading that died
            safe: Matcher = Plain(table) if spread else matcher
            done[group] = _Work(table, safe, logs, tasks).of(numbers)
            _tell(progress, groups, done, total, logs, tasks)
    return _joined(logs, tasks, [one for group in range(len(groups)) for one in done[group]])


class _Work:
    """All that a process needs to know, which it has from its parent."""

    def __init__(self, table: Table, matcher: Matcher, logs: Sequence[Log], tasks: Sequence[Task]) -> None:
        self._table, self._matcher, self._logs, self._tasks = table, matcher, logs, tasks

    def of(self, numbers: range) -> list[Evidence]:
        """What the tasks of a group say."""
        found = []
        for number in numbers:
            task = self._tasks[number]
            found.append(read(self._table, self._matcher, self._logs[task.number], task))
        return found


def _parallel(work: _Work, groups: Sequence[range], count: int) -> Iterator[tuple[int, list[Evidence]]]:
    """What each group says, as it comes; those of a process that died are missing."""
    from multiprocessing.connection import Pipe, wait

    todo, fill = os.pipe()
    os.set_blocking(fill, False)
    left = list(range(len(groups)))
    children: dict[Any, int] = {}
    try:
        if _feed(fill, left):
            os.close(fill)
            fill = -1
        for _one in range(count):
            mine, theirs = Pipe(duplex=False)
            pid = os.fork()
            if not pid:
                _child(work, groups, todo, fill, theirs)
            theirs.close()
            children[mine] = pid
        while children:
            connection: Any
            for connection in wait(list(children)):
                try:
                    yield connection.recv()
                except (EOFError, OSError):
                    _ended(children.pop(connection), connection)
            if fill >= 0 and _feed(fill, left):
                os.close(fill)
                fill = -1
    finally:
        for connection, pid in children.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _ended(pid, connection)
        os.close(todo)
        if fill >= 0:
            os.close(fill)


def _feed(fill: int, left: list[int]) -> bool:
    """Write numbers of groups into the pipe from which all take theirs; whether that was the last."""
    while left:
        try:
            os.write(fill, _NUMBER.pack(left[0]))
        except BlockingIOError:
            return False
        left.pop(0)
    return True


def _child(work: _Work, groups: Sequence[range], todo: int, fill: int, out: Connection) -> None:
    """Take group after group until there is none; never returns."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if fill >= 0:
            os.close(fill)
        while told := os.read(todo, _NUMBER.size):
            (group,) = _NUMBER.unpack(told)
            out.send((group, work.of(groups[group])))
        status = 0
    finally:
        os._exit(status)


def _ended(pid: int, connection: Connection) -> None:
    connection.close()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


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


def _joined(logs: Sequence[Log], tasks: Sequence[Task], parts: Sequence[Evidence]) -> list[Evidence]:
    """The parts of each file as one."""
    whole: list[Evidence] = []
    for task, part in zip(tasks, parts):
        if task.number == len(whole):
            whole.append(part)
        else:
            whole[task.number].join(part)
    return whole


def _tell(
    progress: Optional[Progress],
    groups: Sequence[range],
    done: dict[int, list[Evidence]],
    total: int,
    logs: Sequence[Log],
    tasks: Sequence[Task],
) -> None:
    if progress is not None:
        progress(sum(_size(logs, tasks[number]) for group in done for number in groups[group]), total)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
