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
from npudoctor.explain.reading.opening import Opener, local_devices
from npudoctor.explain.reading.reading import PART, PARTS, ReadTask, plan_tasks, read_log, unread_evidence
from npudoctor.explain.reading.sources import deadline_problem
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.scanning.matching import Matcher, RegexMatcher
from npudoctor.explain.signatures.table import SignatureTable

GRACE = 1.0  # seconds in which a process says what it had read when the time was over
_SMALL = 256 << 10
_GROUP = 8 << 20  # so many bytes are handed to a process at a time
_FILES = 128  # or so many files
_WORTH = 16 << 20  # less is read sooner than processes are started
_MOST = 32  # processes; disks are busy long before
_NUMBER = struct.Struct("=I")
Progress = Callable[[int, int], None]


def scan_logs(
    table: SignatureTable,
    matcher: Matcher,
    logs: Sequence[Log],
    processes: Optional[int] = None,
    progress: Optional[Progress] = None,
    until: float = math.inf,
) -> list[Evidence]:
    """What the logs say, in their order. All is read in children, the newest first: they may hang."""
    tasks, cut = plan_tasks(logs, until)
    tasks.sort(key=lambda task: -logs[task.number].written)
    sizes = [logs[task.number].size if task.end is None else task.end - task.start for task in tasks]
    total, finished = sum(sizes), 0  # bytes
    # Tasks that lie together and are worth to be handed over.
    groups: list[range] = []
    start = size = 0
    for end in range(1, len(tasks) + 1):
        size += sizes[end - 1]
        if size >= _GROUP or end - start >= _FILES or end == len(tasks):
            groups.append(range(start, end))
            start, size = end, 0
    worth = total >= _WORTH or len(logs) >= 4 * _FILES
    count = min(processes or (len(os.sched_getaffinity(0)) if worth else 1), len(groups), _MOST)
    done: dict[int, Evidence] = {}
    for is_retry in (False, True):
        if is_retry:
            # What a process was reading that died is read once more, one by one and without what it may have
            # died of.
            groups = [range(number, number + 1) for number in range(len(tasks)) if number not in done]
            if not groups or time.monotonic() >= until:
                break
            matcher = RegexMatcher(table)
        take = partial(_read_groups, table, matcher, logs, tasks, groups, until)
        for parts in _run_in_parallel(take, len(groups), min(count, len(groups)), until + GRACE):
            done.update(parts)
            finished += sum(sizes[number] for number, _evidence in parts)
            if progress is not None:
                progress(finished, total)
    late = time.monotonic() >= until
    return _join_parts(
        logs, tasks, done, cut, deadline_problem() if late else _("the process reading it died")
    )


def _run_in_parallel(
    take: Callable[[int, int, int], object], groups: int, count: int, until: float
) -> Iterator[list[tuple[int, Evidence]]]:
    """What the tasks say, as it comes; those of a process that died, or was late, are missing."""
    todo, fill = os.pipe()
    # The pipe may be full while all children are busy: we must go on and collect what they have.
    os.set_blocking(fill, False)
    groups_left = list(range(groups))[::-1]
    children: dict[int, int] = {}
    poll = select.poll()
    try:
        for _process in range(count):
            pid, reading = forked.start(partial(take, todo, fill))
            children[reading] = pid
            poll.register(reading, select.POLLIN)
        while children and (wait := until - time.monotonic()) > 0:
            # The pipe from which all take the numbers of groups is kept full, and closed after the last one.
            with contextlib.suppress(BlockingIOError):
                while groups_left:
                    os.write(fill, _NUMBER.pack(groups_left[-1]))
                    groups_left.pop()
            if fill >= 0 and not groups_left:
                os.close(fill)
                fill = -1
            for reading, _event in poll.poll(min(wait, 1e6) * 1000):
                try:
                    yield forked.receive(reading, until)[1]
                except forked.Late:
                    poll.unregister(reading)
                    os.close(reading)
                    forked.end(children.pop(reading))
    finally:
        # All are killed before any is waited for.
        for pid in children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for reading, pid in children.items():
            os.close(reading)
            forked.end(pid)
        os.close(todo)
        if fill >= 0:
            os.close(fill)


def _read_groups(
    table: SignatureTable,
    matcher: Matcher,
    logs: Sequence[Log],
    tasks: Sequence[ReadTask],
    groups: Sequence[range],
    until: float,
    todo: int,
    fill: int,
    writing: int,
) -> None:
    """In a child: read the tasks of group after group until there is none. Many small ones are handed over
    together, but nothing is held back while one is read that may take long, or for ever."""
    forked.restore_default_signals()
    os.close(fill)
    opener = Opener()
    while group := os.read(todo, _NUMBER.size):
        parts: list[tuple[int, Evidence]] = []
        for number in groups[_NUMBER.unpack(group)[0]]:
            if time.monotonic() > until:
                break
            task = tasks[number]
            log = logs[task.number]
            # Only a small file, not packed, on a file system that asks nobody is quick for certain.
            if parts and (
                log.identity is None
                or log.identity[0] not in local_devices()
                or log.size > _SMALL
                or log.path.endswith(".gz")
            ):
                forked.send(writing, forked.ITEM, parts)
                parts = []
            parts.append((number, read_log(table, matcher, log, task, opener, until)))
        forked.send(writing, forked.ITEM, parts)


def _join_parts(
    logs: Sequence[Log],
    tasks: Sequence[ReadTask],
    done: Mapping[int, Evidence],
    cut: Container[int],
    missing: str,
) -> list[Evidence]:
    """The parts of each file as one, up to the first that is missing: lines behind it have no number."""
    whole: list[Optional[Evidence]] = [None] * len(logs)
    ended = set()
    for number, task in enumerate(tasks):
        part = done.get(number)
        before = whole[task.number]
        if task.number in ended:
            continue
        if part is None:
            ended.add(task.number)
            if before is None:
                whole[task.number] = unread_evidence(logs[task.number].path, missing)
            else:
                before.problem = before.problem or missing
        elif before is None:
            whole[task.number] = part
        else:
            before.join_part(part)
        if part is not None and task.end is not None and part.bytes < task.end - task.start:
            ended.add(task.number)
    for number, evidence in enumerate(whole):
        if evidence is not None and number in cut:
            limit = PARTS * PART >> 30
            evidence.problem = evidence.problem or _(
                "larger than {limit} GiB: the rest is not read", limit=limit
            )
        if evidence is not None and evidence.lines_before:
            evidence.number_in_file()
    return [evidence for evidence in whole if evidence is not None]
