"""A file system of a user that says of every file that it is root's: a FUSE daemon in a few lines."""

from __future__ import annotations

import errno
import os
import signal
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Union

import pytest
from tests.support.ipc import checked, libc

_HEADER = struct.Struct("<IIQQIIII")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_LOOKUP, _GETATTR, _OPEN, _READ, _INIT, _OPENDIR, _READDIR = 1, 3, 14, 15, 26, 27, 28
_ENDINGS = (18, 25, 29)  # RELEASE, FLUSH, RELEASEDIR
_SILENT = (2, 42)  # FORGET, BATCH_FORGET


class Claiming:
    """Serves one folder with these files; all are uid 0's, mode 0755. Mount it in a namespace of your own."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._names = ["", *files]
        self._contents = [b"", *files.values()]

    @contextmanager
    def mounted(self, point: Path, user: int) -> Iterator[None]:
        """Mount it as fusermount does for this user. Skips the test where the machine has no FUSE."""
        try:
            descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            pytest.skip(f"/dev/fuse: {error}")
        options = f"fd={descriptor},rootmode=40000,user_id={user},group_id={user},allow_other"
        checked(libc.mount(b"claiming", os.fsencode(point), b"fuse", 6, options.encode()), "mount")
        pid = os.fork()
        if pid == 0:
            try:
                self._serve(descriptor)
            finally:
                os._exit(0)
        os.close(descriptor)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _serve(self, descriptor: int) -> None:
        """Until it is unmounted."""
        while True:
            try:
                request = os.read(descriptor, 1 << 18)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                continue
            _length, code, unique, node, *_rest = _HEADER.unpack_from(request)
            if code in _SILENT:
                continue
            answer = self._answer(code, node, request[_HEADER.size :])
            failed = -answer if isinstance(answer, int) else 0
            body = b"" if isinstance(answer, int) else answer
            os.write(descriptor, struct.pack("<IiQ", 16 + len(body), failed, unique) + body)

    def _answer(self, code: int, node: int, body: bytes) -> Union[bytes, int]:
        if code == _INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 16, 0, 16, 12, 1 << 16, 1, 0, 0, 0)
        if code == _LOOKUP:
            name = body.rstrip(b"\0").decode()
            if not name or name not in self._names:
                return errno.ENOENT
            number = self._names.index(name) + 1
            return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self._attributes(number)
        if code == _GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self._attributes(node)
        if code in (_OPEN, _OPENDIR):
            return struct.pack("<QII", 1, 0, 0)
        if code == _READ:
            _handle, offset, size = struct.unpack_from("<QQI", body)
            return self._contents[node - 1][offset : offset + size]
        if code == _READDIR:
            return b""
        return 0 if code in _ENDINGS else errno.ENOSYS

    def _attributes(self, node: int) -> bytes:
        size = len(self._contents[node - 1])
        mode = 0o040755 if node == 1 else 0o100755
        return _ATTRIBUTES.pack(node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
