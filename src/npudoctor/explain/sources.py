"""Opening what is to be read, whatever it is: plain, compressed, UTF-16, a pipe; and reading it in pieces."""

from __future__ import annotations

import codecs
import itertools
import os
import select
import stat
import time
from collections.abc import Iterator
from typing import Optional

from npudoctor.messages import _, strerror

PIECE = 1 << 20
UNPACKED = 4 << 30  # of one compressed file; more is no log
PATIENCE = 5.0  # how long a pipe may say nothing
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF8, ""))
_TELLING, _MOST_TELLING = 64, 4096  # bytes at the start, by which it is seen how a text is written
_MAGIC = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}


class Unreadable(Exception):
    """What cannot be read; the text says why, without the path."""


class Source:
    """One opened input. `problem` says afterwards what kept it from being read to its end."""

    def __init__(self, path: str, descriptor: int, *, patience: Optional[float] = None) -> None:
        self.path = path
        self.problem: Optional[str] = None
        self.bytes = 0  # as they were read, before they were unpacked
        self._descriptor = descriptor
        self._patience = patience
        self.head = self._raw(4096)

    @property
    def packed(self) -> Optional[str]:
        """How it is compressed, when that is a way that is not read."""
        return next((name for magic, name in _MAGIC.items() if self.head.startswith(magic)), None)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    def pieces(self) -> Iterator[bytes]:
        """All of it as UTF-8 or whatever bytes it has, in pieces of about a MiB."""
        raw = self._all()
        if self.head[:2] == b"\x1f\x8b":
            raw = self._unpacked(raw)
            first = next(raw, b"")
            if first[:2] == b"\x1f\x8b" or any(map(first.startswith, _MAGIC)):
                self.problem = _("compressed more than once, which is not read")
                return
            raw = itertools.chain((first,), raw)
        elif self.packed:
            self.problem = _("compressed with {name}, which is not read").format(name=self.packed)
            return
        yield from _as_utf8(raw)

    def _all(self) -> Iterator[bytes]:
        piece = self.head
        while piece:
            yield piece
            piece = self._raw(PIECE)

    def _raw(self, most: int) -> bytes:
        try:
            if self._patience is not None and not self._spoke(self._patience):
                self.problem = _("nothing came for {seconds} s: what came until then is explained").format(
                    seconds=f"{self._patience:g}"
                )
                return b""
            piece = self._waited(most)
        except OSError as error:
            self.problem = strerror(error.errno)
            return b""
        self.bytes += len(piece)
        return piece

    def _waited(self, most: int) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, most)
            except BlockingIOError:  # somebody made the pipe non-blocking
                select.select([self._descriptor], [], [])

    def _spoke(self, seconds: float) -> bool:
        """Whether a pipe has something to say, or is at its end, in that time. Without a writer it only
        seems to be at its end."""
        until = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while True:
            left = until - time.monotonic()
            for _descriptor, event in poll.poll(max(0, left * 1000)):
                if event & select.POLLIN or self.bytes:
                    return True
                time.sleep(0.02)  # a hang-up before the first byte: nobody has opened the other end yet
            if left <= 0:
                return False

    def _unpacked(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        import zlib

        unpacker, made, at_end = zlib.decompressobj(31), 0, False
        try:
            for piece in raw:
                while piece:
                    if at_end:  # several files that were packed one after the other
                        unpacker, at_end = zlib.decompressobj(31), False
                    text = unpacker.decompress(piece, PIECE)
                    made += len(text)
                    if made > UNPACKED:
                        limit = UNPACKED >> 30
                        self.problem = _("unpacks to more than {limit} GiB: the rest is not read").format(
                            limit=limit
                        )
                        return
                    yield text
                    at_end = unpacker.eof
                    piece = unpacker.unused_data if at_end else unpacker.unconsumed_tail
            if not at_end:
                self.problem = _("the compressed file is cut off: what there is is explained")
        except zlib.error:
            self.problem = _("the compressed file is damaged: what could be unpacked is explained")


def opened(path: str) -> Source:
    """A file or a pipe; Unreadable with the reason. Nothing is waited for but what a pipe has to say."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise Unreadable(strerror(error.errno)) from error
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind):
            return Source(path, descriptor)
        if not stat.S_ISFIFO(kind):
            raise Unreadable(_("no regular file: not read"))
        source = Source(path, descriptor, patience=PATIENCE)
        if source.problem and not source.bytes:
            raise Unreadable(_("a pipe that says nothing: not read"))
        return source
    except BaseException:
        os.close(descriptor)
        raise


def standard_input() -> Source:
    """What is piped into us, however long it takes."""
    return Source("-", os.dup(0))


def _as_utf8(raw: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces, in UTF-8 when their start is UTF-16."""
    first = next(raw, b"")
    while len(first) < _TELLING and (more := next(raw, b"")):
        first += more
    encoding = encoding_of(first)
    first = first[next((len(mark) for mark, _name in _BOMS if first.startswith(mark)), 0) :]
    if encoding:
        yield from _decoded(first, raw, encoding)
        return
    yield first
    yield from raw


def encoding_of(head: bytes) -> str:
    """Which UTF-16 a text is, by the mark at its start or, without one, by where its zeros are; else ""."""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    head = head[: _MOST_TELLING // 2 * 2]
    high, low = head[::2], head[1::2]
    # Of a text with ASCII in it, as any log is, half the bytes are zeros at one side, and none at the other.
    for zeros, others, encoding in ((low, high, "utf-16-le"), (high, low, "utf-16-be")):
        if len(zeros) >= 8 and zeros.count(0) > len(zeros) // 2 and not others.count(0):
            return encoding
    return ""


def _decoded(first: bytes, raw: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first).encode("utf-8", "replace")
    for piece in raw:
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", True).encode("utf-8", "replace")
