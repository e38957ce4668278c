"""Reads one file, or one part of a large one, and scans it; whatever is wrong with it becomes a line."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core import forked
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, strerror
from npudoctor.explain.reading.opening import Opener, UnreadableLog
from npudoctor.explain.reading.pasted import PastedLog
from npudoctor.explain.reading.sources import (
    PIECE,
    Source,
    deadline_problem,
    encoding_of,
    shrink_problem,
    source_of,
)
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.scanning.matching import Matcher
from npudoctor.explain.scanning.outline import KEPT
from npudoctor.explain.scanning.scan import CONTEXT, HEAD, Scan
from npudoctor.explain.signatures.table import SignatureTable

PART = 32 << 20
PARTS = 16_384  # of all files together: half a TiB; what is larger is not read to its end
GROWN = PART  # so much may come to a log between the walk and its reading
# Magic numbers of gzip, bzip2, xz, zstd and zip.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zX", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
_GARBAGE = 0.3  # the part of its first bytes that a binary file has and no log has


@dataclass(frozen=True)
class ReadTask:
    """A file to be read, by its number, or of a large one the part from `start` to `end`; `last`: nothing is
    to be read behind it."""

    number: int
    start: int = 0
    end: Optional[int] = None
    last: bool = True


def plan_tasks(logs: Sequence[Log], until: float = math.inf) -> tuple[list[ReadTask], frozenset[int]]:
    """All that is to be read, large files in parts that several processes can share; and the numbers of those
    that are too large to be read to their end."""
    large = [number for number, log in enumerate(logs) if log.size - log.begin >= 2 * PART]
    parts: dict[int, tuple[list[tuple[int, int]], bool]] = {}
    if large:
        patience = min(until, time.monotonic() + forked.PATIENCE)
        with contextlib.suppress(forked.Late):  # what hangs there is not divided, and hangs who reads it
            parts.update(forked.stream(lambda: _divide_files(logs, large), patience))
    tasks, cut = [], set()
    for number in range(len(logs)):
        ranges, whole = parts.get(number, ([], True))
        tasks += [
            ReadTask(number, start, end, index + 1 == len(ranges))
            for index, (start, end) in enumerate(ranges)
        ] or [ReadTask(number)]
        if not whole:
            cut.add(number)
    return tasks, frozenset(cut)


def _divide_files(
    logs: Sequence[Log], numbers: Sequence[int]
) -> Iterator[tuple[int, tuple[list[tuple[int, int]], bool]]]:
    """The parts of each large file, and whether they are all of it; none of what cannot be read in parts."""
    opener, parts_left = Opener(), PARTS
    for number in numbers:
        log = logs[number]
        try:
            with open(open_log(opener, log), "rb", buffering=0) as file:
                # Neither what is packed nor UTF-16 can be read in parts; what is binary is read as one, to be
                # seen as such.
                head = file.read(4096)
                if not head.startswith(_PACKED) and not encoding_of(head) and not is_binary(head):
                    ranges, whole = _find_data_ranges(file.fileno(), log.begin, log.size, max(1, parts_left))
                    parts_left -= len(ranges)
                    yield number, (ranges, whole)
        except (OSError, UnreadableLog):
            continue  # who reads it says why


def _find_data_ranges(descriptor: int, at: int, size: int, most: int) -> tuple[list[tuple[int, int]], bool]:
    """The parts of a file in which there is something: a sparse one may be larger than any disk."""
    ranges: list[tuple[int, int]] = []
    while at < size:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                break
        if at >= size:
            break
        if len(ranges) >= most:
            return ranges, False
        ranges.append((at, min(at + PART, size)))
        at += PART
    return ranges or [(0, 0)], True


def open_log(opener: Opener, log: Log) -> int:
    """A descriptor to read a log by; Unreadable when it is not what the walk saw."""
    return opener.open(log.path, log.base, log.relative_path, log.identity)


def read_log(
    table: SignatureTable,
    matcher: Matcher,
    log: Log,
    task: ReadTask,
    opener: Optional[Opener] = None,
    until: float = math.inf,
) -> Evidence:
    """What this task's file or part says."""
    try:
        descriptor = open_log(opener or Opener(), log)
        before = _count_lines_before(log, task, descriptor, until)
        if task.end is not None:
            evidence = _read_part(table, matcher, log, task, descriptor, until)
            evidence.lines_before = before
            return evidence
        source = source_of(log.path, descriptor, until)
    except UnreadableLog as why:
        return unread_evidence(log.path, str(why))
    try:
        if not log.is_named and not source.unread_compression and is_binary(source.head):
            evidence = Evidence(log.path)
            evidence.is_binary = True
            return evidence
        evidence = read_source(Scan(table, matcher, log.path, log.year, until=until), source)
        evidence.lines_before = before
        return evidence
    finally:
        source.close()


def _count_lines_before(log: Log, task: ReadTask, descriptor: int, until: float) -> int:
    """How many lines end before the place where reading begins, to which the descriptor is set; counted with
    the first part of a file."""
    count = bytes_left = 0
    if task.end is None or task.start == log.begin:
        bytes_left = log.begin
    while bytes_left and time.monotonic() < until:
        piece = os.pread(descriptor, min(PIECE, bytes_left), log.begin - bytes_left)
        count, bytes_left = count + piece.count(b"\n"), bytes_left - len(piece) if piece else 0
    # pread(2) does not move the offset, from which the source reads on.
    os.lseek(descriptor, log.begin, os.SEEK_SET)
    return count


def read_source(scan: Scan, source: Source) -> Evidence:
    """What an opened input says, and what is wrong with it."""
    pasted = PastedLog(source.pieces())
    evidence = pasted.evidence(scan.scan_pieces(pasted.pieces()))
    evidence.bytes, evidence.problem = source.bytes, source.problem or evidence.problem
    if not evidence.problem and is_binary(source.head):
        evidence.problem = _("binary data, not a log: only the text in it is explained")
    return evidence


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is no log. Zeros alone are not telling: a log that was cut while it was
    written begins with them."""
    # UTF-16 has zeros, too, and gzip is unpacked.
    if b"\0" not in head or head.startswith(b"\x1f\x8b") or encoding_of(head):
        return False
    rest = head.replace(b"\0", b"")
    odd = sum(1 for byte in rest if byte < 9 or 13 < byte < 27 or byte > 126)
    return odd > _GARBAGE * len(rest) if rest else False


def _read_part(
    table: SignatureTable, matcher: Matcher, log: Log, task: ReadTask, descriptor: int, until: float
) -> Evidence:
    start, end = task.start, task.end or 0
    # Of the last part the course of the log is asked too.
    base = max(log.begin, start - (KEPT if task.last else CONTEXT))
    try:
        # The last part reads what the log has grown by since the walk, but not what it still grows by.
        size = max(end, os.fstat(descriptor).st_size if task.last and end == log.size else 0)
        limit = min(size, end + GROWN) if task.last else min(log.size, end + CONTEXT)
        pieces = _Range(descriptor, base, limit, until)
        own = (start, 1 << 62 if task.last else end)
        # Runs that were appended to one file begin as the file does.
        head = os.pread(descriptor, HEAD, 0) if task.last and base and not log.begin else b""
        scan = Scan(table, matcher, log.path, log.year, base, own, until=until, head=head)
        evidence = scan.scan_pieces(pieces)
        evidence.bytes = max(0, (scan.evidence.end if task.last else min(end, scan.evidence.end)) - start)
        evidence.problem = pieces.problem or evidence.problem
        return evidence
    except OSError as error:
        return unread_evidence(log.path, strerror(error.errno))
    finally:
        os.close(descriptor)


class _Range:
    """The pieces of a part of a file; `problem` says afterwards what kept it from being read to its end."""

    def __init__(self, descriptor: int, start: int, end: int, until: float) -> None:
        self._descriptor, self._start, self._end, self._until = descriptor, start, end, until
        self.problem: Optional[str] = None

    def __iter__(self) -> Iterator[bytes]:
        start = self._start
        while start < self._end:
            if time.monotonic() > self._until:
                self.problem = deadline_problem()
                return
            piece = os.pread(self._descriptor, min(PIECE, self._end - start), start)
            if not piece:
                self.problem = shrink_problem()
                return
            yield piece
            start += len(piece)


def unread_evidence(path: str, why: str) -> Evidence:
    """Of a file of which nothing was read."""
    evidence = Evidence(path)
    evidence.problem, evidence.is_unread = why, True
    return evidence
