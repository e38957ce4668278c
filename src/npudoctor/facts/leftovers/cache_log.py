"""The logs of MindSpore's dataset cache server: who made which segment, and where it spilled."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.lazy import pattern
from npudoctor.facts.leftovers.cache_server import LOG, SPILL, SocketPlaces, find_places
from npudoctor.host.fs.disk import PathStatus, entry_from_stat
from npudoctor.host.fs.walk import Parent, open_directory

# A server whose cache is full logs a line for each row that it does not keep: megabytes in minutes. So only
# the lines that tell something are kept while a log is read, and what lies beyond the limit proves nothing.
LOG_LIMIT = 256 << 20
LINES_LIMIT = 10_000  # telling lines kept of one log
# Anybody may put files that are named like logs into /tmp, any number of them and as large as he likes (a
# sparse one costs nothing). So what others own is read up to less, and no user can use up all there is.
OTHERS_LIMIT = 32 << 20
OWNER_LIMIT, RUN_LIMIT = 128 << 20, 512 << 20
LOGS_LIMIT = 200  # of one owner in one directory, the newest
# Bytes: the head has glog's header and the first lines, the tail the time of the last line; a chunk is read
# at once.
HEAD, TAIL, CHUNK = 4096, 1 << 16, 4 << 20
LONGEST = 2 * HEAD  # of a line that tells something: it may hold a path
CUT = b"(cut)"  # stands for the beginning of a line that is too long, so that the rest is none
# Parts of the sentences below, searched as bytes before any line is parsed.
TELLING = (b"Creation of shared memory", b"CachePool will use disk", b"listening on port")

# Digits are counted, and a line must begin like one: anybody may put a "log" into /tmp, and neither a number
# of a thousand digits nor a line quoted inside another one may get anywhere.
_LINE = pattern(
    r"^\[\w+\] MD\((?P<pid>[0-9]{1,10}),[^,()\n]*,(?:dataset-cache-server|cache_server)\):"
    r"(?P<when>[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2}:[0-9]{2}:[0-9]{2})\.[0-9]{3}\.[0-9]{3} "  # local time
    r"\[[^\]\n]*\] [^\]\n]*\] (?P<text>[^\n]*)",
    re.MULTILINE,
)
# From glog's header of each file.
_MACHINE = pattern(r"^Running on machine: (.+)$", re.MULTILINE)
# With -l 2 or GLOG_v=2 and above this line is absent, and the log proves nothing.
_KEY = pattern(r"Creation of shared memory successful\. Shared memory key (-?[0-9]{1,10})\Z")
_PORT = pattern(r"Cache server has started successfully and is listening on port ([0-9]{1,5})\Z")
# One for each cache. The line about the root, "CacheServer will use", names no folder of its own.
_FOLDER = pattern(r"CachePool will use disk folder: (/[^\0]+)\Z")


@dataclass(frozen=True)
class SegmentCreation:
    """A line that says that this process created a segment: key unsigned, local time as epoch seconds."""

    key: int
    when: int


@dataclass(frozen=True)
class ServerLog:
    """One log file: the file itself, and what the lines of its own process say.

    `last`: the time of the last such line, as epoch seconds, None without one. `machine`: the host name that
    glog wrote, None without one.
    """

    path: str
    pid: int
    entry: PathStatus
    parents: tuple[Parent, ...]
    machine: Optional[str]
    created: tuple[SegmentCreation, ...]
    spills: tuple[str, ...]
    last: Optional[int]
    port: Optional[int] = None


def log_places(tmp: str = "/tmp", where: Optional[SocketPlaces] = None) -> Iterator[str]:  # noqa: S108
    """The directories that may hold logs, one for each naming scheme and login name."""
    yield tmp
    for directory, _old in (where or find_places(tmp)).directories:
        if directory != tmp:
            yield f"{directory}/log" if directory.endswith("/cache") else f"{directory}/cache/log"


class ReadAllowance:
    """How many bytes of logs may still be read in this run: in all, and of each other user's."""

    def __init__(self) -> None:
        self._trusted = {0, os.geteuid()}
        self._left = RUN_LIMIT
        self._of_owner: dict[int, int] = {}

    def take(self, uid: int, size: int) -> int:
        """The number of bytes to read of a log of this owner and size; they are used up."""
        most = min(size, LOG_LIMIT, self._left)
        if uid not in self._trusted:
            most = min(most, OTHERS_LIMIT, self._of_owner.get(uid, OWNER_LIMIT))
            self._of_owner[uid] = self._of_owner.get(uid, OWNER_LIMIT) - most
        self._left -= most
        return most


def read_logs(tmp: str = "/tmp", where: Optional[SocketPlaces] = None) -> list[ServerLog]:  # noqa: S108
    """The logs at the known places that we may read and that may prove something, the newest last."""
    logs: list[ServerLog] = []
    allowance = ReadAllowance()
    for directory in dict.fromkeys(log_places(tmp, where)):
        try:
            with open_directory(directory) as (descriptor, parents):
                here: dict[str, ServerLog] = {}
                for name, pid in _find_newest(descriptor):
                    # A log that vanished or is closed to us proves nothing; the others may.
                    with suppress(OSError):
                        log = _read_log(descriptor, name, pid, directory, parents, allowance)
                        if log is not None:
                            here[name] = log
                # In the order of their names, which is that of their making for one pid.
                logs += join_continued([here[name] for name in sorted(here)])
        except OSError:
            continue  # missing, a link, or not ours to read: then it proves nothing
    return sorted(logs, key=lambda log: log.entry.mtime_ns)


def _find_newest(descriptor: int) -> Iterator[tuple[str, int]]:
    """Yield (name, pid) of the logs to read, the newest first, so that the oldest are left out when there are
    too many.
    """
    # The lines that prove are not in the copies of other levels.
    match_by_name = {name: LOG.match(name) for name in os.listdir(descriptor) if ".log.INFO." in name}
    pids = {name: int(match.group(2)) for name, match in match_by_name.items() if match}
    # Not as entries: there may be hundreds of thousands.
    provable: list[tuple[int, int, str]] = []
    for name in pids:
        # Gone since it was listed.
        with suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            # A hard link or a file that others can write proves nothing.
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and not status.st_mode & 0o022:
                provable.append((status.st_mtime_ns, status.st_uid, name))
    count: dict[int, int] = {}
    for _when, uid, name in sorted(provable, reverse=True):
        count[uid] = count.get(uid, 0) + 1
        if count[uid] <= LOGS_LIMIT:
            yield name, pids[name]


def may_prove(entry: PathStatus) -> bool:
    """Return whether a log with these properties could be trusted for any owner; else it is not even read."""
    return entry.is_file and entry.nlink == 1 and not entry.permissions & 0o022


def join_continued(logs: Sequence[ServerLog]) -> list[ServerLog]:
    """The logs, each file joined to the one that it continues (glog begins a new file at a size).

    A process begins by logging its port; a file of the same pid, machine and owner that does not begin so
    continues the process before. What one of the files cannot prove, the joined log cannot either.
    """
    joined: list[ServerLog] = []
    for log in logs:
        before = next((earlier for earlier in reversed(joined) if earlier.pid == log.pid), None)
        # It names its port, or a segment: it is a new process with the same pid.
        if before is None or log.port is not None or log.created or not _have_same_writer(before, log):
            joined.append(log)
        else:
            joined[joined.index(before)] = replace(
                before,
                entry=log.entry,
                spills=tuple(dict.fromkeys(before.spills + log.spills)),
                last=log.last or before.last,
            )
    return joined


def _have_same_writer(before: ServerLog, log: ServerLog) -> bool:
    """Return whether both files agree in everything that a proof by one of them says about its writer."""

    def writer_facts(own: ServerLog) -> tuple[object, ...]:
        entry = own.entry
        return own.machine, own.parents, entry.uid, entry.nlink, entry.is_file, entry.permissions & 0o022

    return writer_facts(before) == writer_facts(log)


def _read_log(
    descriptor: int,
    name: str,
    pid: int,
    directory: str,
    parents: tuple[Parent, ...],
    allowance: ReadAllowance,
) -> Optional[ServerLog]:
    # O_NONBLOCK: anybody may put a FIFO there.
    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
    with open(opened, "rb") as file:
        entry = entry_from_stat(os.fstat(opened))
        most = allowance.take(entry.uid, entry.size) if may_prove(entry) else 0
        if not most:
            return None
        text = read_excerpt(file, entry.size, most).decode("utf-8", "surrogateescape")
    return parse_log(text, f"{directory}/{name}", pid, entry, parents)


def read_excerpt(file: BinaryIO, size: int, most: int = LOG_LIMIT) -> bytes:
    """The head of a log, its telling lines in the first `most` bytes, and its last lines.

    Whole lines only: the rest of a line may look like one, and a line cut short may contain another number.
    """
    head, _newline, rest = file.read(HEAD).rpartition(b"\n")
    parts, read_bytes, line_count = [head], HEAD, 0
    while read_bytes < most and line_count < LINES_LIMIT:
        chunk = file.read(CHUNK)
        if not chunk:
            break
        read_bytes += len(chunk)
        if b"\n" not in chunk:  # a hole, say: nothing to look for, nor to copy
            rest = rest + chunk if len(rest) + len(chunk) <= LONGEST else CUT
            continue
        whole, _newline, rest = (rest + chunk).rpartition(b"\n")
        rest = rest if len(rest) <= LONGEST else CUT
        telling = find_telling_lines(whole)[: LINES_LIMIT - line_count]
        line_count += len(telling)
        parts += telling
    # One line before the tail may have been read already; repeated lines do no harm.
    if size > HEAD:
        # One byte earlier: where that is a line feed, the line behind it is whole.
        file.seek(max(HEAD, size - TAIL) - 1)
        parts.append(file.read(TAIL + 1).partition(b"\n")[2].rpartition(b"\n")[0])
    return b"\n".join(parts)


def find_telling_lines(text: bytes) -> list[bytes]:
    """The lines that contain one of the telling words, in order."""
    lines: dict[int, bytes] = {}
    for words in TELLING:
        at = text.find(words)
        while at >= 0:
            begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
            end = len(text) if end < 0 else end
            if end - begin <= LONGEST:
                lines[begin] = text[begin:end]
            at = text.find(words, end)
    return [lines[begin] for begin in sorted(lines)]


def parse_log(
    text: str, path: str, pid: int, entry: PathStatus, parents: tuple[Parent, ...] = ()
) -> ServerLog:
    """What a log says about the process whose pid is in its name; lines of other pids do not count."""
    # glog writes it into the header of each file.
    machine = _MACHINE.search(text[:4096])
    lines = [
        (line["text"].rstrip(), line["when"]) for line in _LINE.finditer(text) if int(line["pid"]) == pid
    ]
    keys = [(match.group(1), local_seconds(when)) for match, when in _match_lines(_KEY, lines)]
    folders = [match.group(1).rstrip("/") for match, _when in _match_lines(_FOLDER, lines)]
    ports = [int(match.group(1)) for match, _when in _match_lines(_PORT, lines)]
    return ServerLog(
        path=path,
        pid=pid,
        entry=entry,
        parents=parents,
        machine=machine.group(1).strip() if machine else None,
        created=tuple(
            # The server logs key_t, a signed int; /proc/sysvipc/shm is read as unsigned.
            dict.fromkeys(
                SegmentCreation(int(key) & 0xFFFFFFFF, when) for key, when in keys if when is not None
            )
        ),
        # A folder of another name was not made by a cache server, whatever the log says.
        spills=tuple(dict.fromkeys(path for path in folders if SPILL.match(os.path.basename(path)))),
        last=local_seconds(lines[-1][1]) if lines else None,
        port=ports[-1] if ports else None,
    )


def _match_lines(
    pattern: re.Pattern[str], lines: Sequence[tuple[str, str]]
) -> Iterator[tuple[re.Match[str], str]]:
    for words, when in lines:
        match = pattern.match(words)
        if match:
            yield match, when


def local_seconds(when: str) -> Optional[int]:
    """Epoch seconds of a log's local time "YYYY-mm-dd-HH:MM:SS"; None when there is no such time."""
    try:
        return int(time.mktime(time.strptime(when, "%Y-%m-%d-%H:%M:%S")))
    # The log is written by others: 31 February, or a year that mktime does not know.
    except (ValueError, OverflowError):
        return None
