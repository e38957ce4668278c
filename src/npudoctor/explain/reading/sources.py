"""Opening what is to be read, whatever it is: plain, compressed, UTF-16, a pipe; and reading it in pieces."""

from __future__ import annotations

import codecs
import errno
import itertools
import math
import os
import select
import stat
import time
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.descriptors import wait_until_ready
from npudoctor.core.messages import _, strerror
from npudoctor.explain.reading.opening import Opener, UnreadableLog

PIECE = 1 << 20
UNPACKED = 4 << 30  # of one compressed file; more is no log
PLAIN = 4 << 30  # of one file that cannot be read in parts
PATIENCE = 5.0  # how long a pipe may say nothing
# Byte order marks with the encoding that they stand for; that of UTF-8 is only removed.
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF8, ""))
_TELLING, _MOST_TELLING = 64, 4096  # bytes at the start, by which it is seen how a text is written
_MAGIC = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}


class Source:
    """One opened input. `problem` says afterwards what kept it from being read to its end. `patience`: how
    many seconds it may say nothing; `until`: when reading has to be over, on the steady clock."""

    def __init__(
        self, path: str, descriptor: int, *, patience: Optional[float] = None, until: float = math.inf
    ) -> None:
        self.path = path
        self.problem: Optional[str] = None
        self.bytes = 0  # as they were read, before they were unpacked
        self._descriptor = descriptor
        self._patience = patience
        self._until = until
        self._bytes_left = _remaining_size(descriptor)  # None: not known, as of a pipe
        self.head = self._read_raw(4096)

    @property
    def unread_compression(self) -> Optional[str]:
        """How it is compressed, when that is a way that is not read."""
        return next((name for magic, name in _MAGIC.items() if self.head.startswith(magic)), None)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    def pieces(self) -> Iterator[bytes]:
        """All of it as UTF-8 or whatever bytes it has, in pieces of about a MiB."""
        # From the head on, up to the first piece that is empty.
        following = iter(lambda: self._read_raw(PIECE), b"")
        raw: Iterator[bytes] = itertools.takewhile(bool, itertools.chain((self.head,), following))
        if self.head[:2] == b"\x1f\x8b":
            raw = self._unpack(raw)
            first = next(raw, b"")
            if first[:2] == b"\x1f\x8b" or any(map(first.startswith, _MAGIC)):
                self.problem = _("compressed more than once: not read")
                return
            raw = itertools.chain((first,), raw)
        elif self.unread_compression:
            self.problem = _("compressed with {name}: not read", name=self.unread_compression)
            return
        yield from _as_utf8(raw)

    def _read_raw(self, most: int) -> bytes:
        try:
            if self._bytes_left is not None:
                return self._read_file(min(most, self._bytes_left))
            if not self._has_data():
                return b""
            piece = self._wait_and_read(most)
        except OSError as error:
            self.problem = strerror(error.errno)
            return b""
        self.bytes += len(piece)
        return piece

    def _read_file(self, most: int) -> bytes:
        """What follows in a file, up to where it ended when it was opened: it may grow for ever."""
        if not most:
            return b""
        if time.monotonic() > self._until:
            self.problem = deadline_problem()
            return b""
        if self.bytes >= PLAIN:
            self.problem = _("larger than {limit} GiB: the rest is not read", limit=PLAIN >> 30)
            return b""
        piece = os.read(self._descriptor, most)
        if not piece:
            self.problem = shrink_problem()
        self.bytes += len(piece)
        self._bytes_left = (self._bytes_left or 0) - len(piece)
        # A piece of zeros may be the start of a hole of terabytes.
        if piece[-1:] == b"\0" and not piece.strip(b"\0"):
            self._bytes_left -= _skip_hole(self._descriptor, self._bytes_left)
        return piece

    def _wait_and_read(self, most: int) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, most)
            except BlockingIOError:  # somebody made the pipe non-blocking
                wait_until_ready(self._descriptor, min(self._until - time.monotonic(), 1e6))
                if time.monotonic() > self._until:
                    self.problem = deadline_problem()
                    return b""

    def _has_data(self) -> bool:
        """Whether a pipe has something to say, or is at its end, in time; why not is noted. Without a writer
        it only seems to be at its end."""
        now = time.monotonic()
        until = min(self._until, math.inf if self._patience is None else now + self._patience)
        if until == math.inf:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while (seconds_left := until - time.monotonic()) > 0:
            for _descriptor, event in poll.poll(seconds_left * 1000):
                if event & select.POLLIN or self.bytes or self._patience is None:
                    return True
                time.sleep(0.02)  # a hang-up before the first byte: nobody has opened the other end yet
        if until == self._until:
            self.problem = deadline_problem()
        else:
            self.problem = _(
                "no data for {seconds} s: the data received until then is explained",
                seconds=f"{self._patience:g}",
            )
        return False

    def _unpack(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        import zlib

        # 31: a gzip header is expected, with the largest window (zlib manual, inflateInit2).
        unpacker, made, at_end = zlib.decompressobj(31), 0, False
        try:
            for piece in raw:
                while piece:
                    if time.monotonic() > self._until:
                        self.problem = deadline_problem()
                        return
                    if at_end:  # several files that were packed one after the other
                        unpacker, at_end = zlib.decompressobj(31), False
                    text = unpacker.decompress(piece, PIECE)
                    made += len(text)
                    if made > UNPACKED:
                        limit = UNPACKED >> 30
                        self.problem = _(
                            "unpacks to more than {limit} GiB: the rest is not read", limit=limit
                        )
                        return
                    yield text
                    at_end = unpacker.eof
                    piece = unpacker.unused_data if at_end else unpacker.unconsumed_tail
            if not at_end and not self.problem:
                self.problem = _("the compressed file is truncated: the available part is explained")
        except zlib.error:
            self.problem = _("the compressed file is damaged: what could be unpacked is explained")


def open_source(path: str, until: float = math.inf) -> Source:
    """A named file or pipe; Unreadable with the reason. Nothing is waited for but what a pipe has to say."""
    return source_of(path, Opener().open(path), until)


def source_of(path: str, descriptor: int, until: float) -> Source:
    """An opened file or pipe as a source, which closes it; Unreadable when it is neither, or says nothing."""
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind):
            return Source(path, descriptor, until=until)
        if not stat.S_ISFIFO(kind):
            raise UnreadableLog(_("not a regular file: not read"))
        source = Source(path, descriptor, patience=PATIENCE, until=until)
        if source.problem and not source.bytes:
            raise UnreadableLog(_("a pipe that sends no data: not read"))
        return source
    except BaseException:
        os.close(descriptor)
        raise


def open_standard_input(until: float = math.inf) -> Source:
    """What is piped into us, however long it takes unless that is said."""
    return Source("-", os.dup(0), until=until)


def deadline_problem() -> str:
    """Why reading stopped before the end."""
    return _("not read to its end within the deadline")


def shrink_problem() -> str:
    """Why reading ended before where the file had ended."""
    return _("became shorter while it was read")


def _remaining_size(descriptor: int) -> Optional[int]:
    """How much of a regular file there is to be read."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        return max(0, status.st_size - os.lseek(descriptor, 0, os.SEEK_CUR))
    except OSError:
        return None


def _skip_hole(descriptor: int, bytes_left: int) -> int:
    """Go on behind the hole in which a file is; how many bytes that were, at most what is left."""
    try:
        start = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            end = min(start + bytes_left, os.lseek(descriptor, start, os.SEEK_DATA))
        except OSError as error:
            end = start + bytes_left if error.errno == errno.ENXIO else start
        return os.lseek(descriptor, end, os.SEEK_SET) - start
    except OSError:
        return 0


def _as_utf8(raw: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces, in UTF-8 when their start is UTF-16."""
    first = next(raw, b"")
    while len(first) < _TELLING and (more := next(raw, b"")):
        first += more
    encoding = encoding_of(first)
    first = first[next((len(mark) for mark, _name in _BOMS if first.startswith(mark)), 0) :]
    if not encoding:
        yield first
        yield from raw
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for piece in itertools.chain((first,), raw):
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", True).encode("utf-8", "replace")


def encoding_of(head: bytes) -> str:
    """Which UTF-16 a text is, by the mark at its start or, without one, by where its zeros are; else ""."""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    head = head[: _MOST_TELLING // 2 * 2]
    high, low = head[::2], head[1::2]
    # Of a text with ASCII in it, as any log is, half the bytes are zeros at one side, and none at the other.
    for zeros, other_half, encoding in ((low, high, "utf-16-le"), (high, low, "utf-16-be")):
        if len(zeros) >= 8 and zeros.count(0) > len(zeros) // 2 and not other_half.count(0):
            return encoding
    return ""
