"""Reads one file, or one part of a large one, and scans it; whatever is wrong with it becomes a line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Optional

from npudoctor.explain.evidence import Evidence
from npudoctor.explain.matching import Matcher
from npudoctor.explain.scan import CONTEXT, Scan
from npudoctor.explain.sources import PIECE, Source, Unreadable, encoding_of, opened
from npudoctor.explain.table import Table
from npudoctor.explain.walk import Log
from npudoctor.frozen import dataclass
from npudoctor.messages import _, strerror

PART = 32 << 20
_GARBAGE = 0.3  # the part of its first bytes that a binary file has and no log has


@dataclass(frozen=True)
class Task:
    """A file to be read, by its number, or of a large one the part from `start` to `end`."""

    number: int
    start: int = 0
    end: Optional[int] = None


def tasks_of(logs: list[Log]) -> Iterator[Task]:
    """All that is to be read; large files in parts that several processes can share."""
    for number, log in enumerate(logs):
        if log.size < 2 * PART or not _divisible(log.path):
            yield Task(number)
            continue
        for start in range(0, log.size, PART):
            last = start + PART >= log.size
            yield Task(number, start, log.size if last else start + PART)


def _divisible(path: str) -> bool:
    """Whether parts of a file can be read by themselves: neither packed nor UTF-16."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            head = file.read(4096)
    except OSError:
        return False
    packed = (b"\x1f\x8b", b"BZh", b"\xfd7zX", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
    # What is binary is read as one, to be seen as such.
    return not head.startswith(packed) and not encoding_of(head) and not binary(head)


def read(table: Table, matcher: Matcher, log: Log, task: Task) -> Evidence:
    """What this task's file or part says."""
    if task.end is not None:
        return _read_part(table, matcher, log, task.start, task.end)
    try:
        source = opened(log.path)
    except Unreadable as why:
        return _failed(log.path, str(why))
    try:
        if not log.named and not source.packed and binary(source.head):
            evidence = Evidence(log.path)
            evidence.binary = True
            return evidence
        return read_source(Scan(table, matcher, log.path, log.year), source)
    finally:
        source.close()


def read_source(scan: Scan, source: Source) -> Evidence:
    """What an opened input says, and what is wrong with it."""
    evidence = scan.of(source.pieces())
    evidence.bytes, evidence.problem = source.bytes, source.problem
    if not evidence.problem and binary(source.head):
        evidence.problem = _("binary data, no log: only what of it is text is explained")
    return evidence


def binary(head: bytes) -> bool:
    """Whether a file that begins so is no log. Zeros alone are not telling: a log that was cut while it was
    written begins with them."""
    if b"\0" not in head or head.startswith(b"\x1f\x8b") or encoding_of(head):
        return False
    rest = head.replace(b"\0", b"")
    odd = sum(1 for byte in rest if byte < 9 or 13 < byte < 27 or byte > 126)
    return odd > _GARBAGE * len(rest) if rest else False


def _read_part(table: Table, matcher: Matcher, log: Log, start: int, end: int) -> Evidence:
    base = max(0, start - CONTEXT)
    try:
        descriptor = os.open(log.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return _failed(log.path, strerror(error.errno))
    try:
        # The last part reads on: the log may have grown.
        last = end >= log.size
        scan = Scan(table, matcher, log.path, log.year, base, (start, 1 << 62 if last else end))
        evidence = scan.of(_range(descriptor, base, None if last else end + CONTEXT))
        evidence.bytes = (scan.evidence.end if last else end) - start
        if not last:
            evidence.tail = b""
        return evidence
    except OSError as error:
        return _failed(log.path, strerror(error.errno))
    finally:
        os.close(descriptor)


def _range(descriptor: int, start: int, end: Optional[int]) -> Iterator[bytes]:
    while end is None or start < end:
        piece = os.pread(descriptor, PIECE if end is None else min(PIECE, end - start), start)
        if not piece:
            return
        yield piece
        start += len(piece)


def _failed(path: str, why: str) -> Evidence:
    evidence = Evidence(path)
    evidence.problem, evidence.unread = why, True
    return evidence
